//! See the target of this name in twin-fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| twin_fuzz::run("device_journal", data));
