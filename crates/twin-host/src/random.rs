//! Random numbers of the host.

/// Random bytes from the host: for identifiers and seeds, which no run may share.
///
/// # Errors
/// If the host has none.
pub fn random_bytes() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes, flags) {
        Ok(16) => Ok(bytes),
        Ok(_) => Err("the host has no random numbers".into()),
        Err(error) => Err(format!("random numbers: {error}")),
    }
}

/// A random seed.
///
/// # Errors
/// As [`random_bytes`].
pub fn random_seed() -> Result<u64, String> {
    Ok(u64::from_le_bytes(random_bytes()?[..8].try_into().unwrap_or_default()))
}
