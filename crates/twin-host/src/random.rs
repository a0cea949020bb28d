//! Random numbers of the host.

/// Random bytes from the host, at most 256: for identifiers and seeds, which no run may share, and for keys' nonces.
///
/// # Errors
/// If the host has none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes, flags) {
        Ok(all) if all == N => Ok(bytes),
        Ok(_) => Err("the host has no random numbers".into()),
        Err(error) => Err(format!("random numbers: {error}")),
    }
}

/// A random seed.
///
/// # Errors
/// As [`random_bytes`].
pub fn random_seed() -> Result<u64, String> {
    random_bytes().map(u64::from_le_bytes)
}
