//! Addresses of clients, and networks of them.
//!
//! Contract: an address of IPv4 is held in the form in which IPv6 maps it, so both are compared in
//! one way. The text of an address is read and written by `core::net`, which is arithmetic: nothing
//! here asks the host.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;

/// The number of leading bits that all mapped addresses of IPv4 have in common.
const MAPPED_BITS: u8 = 96;

/// The address of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub [u8; 16]);

impl Address {
    /// The address of this machine itself (IPv4).
    pub const LOOPBACK: Address = Address([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1]);

    /// True for an address of the machine itself.
    pub fn is_loopback(&self) -> bool {
        self.ip().is_loopback()
    }

    fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Address {
        match ip {
            IpAddr::V4(ip) => Address(ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => Address(ip.octets()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

/// A network: the addresses that agree with one of them in their leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: Address,
    /// How many of the 128 bits of an address the network fixes.
    bits: u8,
}

impl Network {
    /// Reads `192.0.2.0/24`, `2001:db8::/32`, or an address alone.
    pub fn parse(text: &str) -> Result<Network, String> {
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| {
            format!("{text:?} is no address or network; write 192.0.2.0/24, 2001:db8::/32 or all")
        })?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits: u8 = match bits {
            None => most,
            Some(bits) => bits.parse().ok().filter(|&bits| bits <= most).ok_or_else(|| {
                format!("{text:?}: the number after the slash is from 0 to {most}")
            })?,
        };
        let bits = if ip.is_ipv4() { bits + MAPPED_BITS } else { bits };
        let network = Network { base: ip.into(), bits };
        let rest = u128::from_be_bytes(network.base.0) & !mask(network.bits);
        if rest != 0 {
            return Err(format!("{text:?}: the address has bits beyond the network's length"));
        }
        Ok(network)
    }

    /// True if the network has this address.
    pub fn has(&self, address: Address) -> bool {
        let differ = u128::from_be_bytes(self.base.0) ^ u128::from_be_bytes(address.0);
        differ & mask(self.bits) == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v4 = self.base.ip().is_ipv4() && self.bits >= MAPPED_BITS;
        let bits = if v4 { self.bits - MAPPED_BITS } else { self.bits };
        write!(f, "{}/{bits}", self.base)
    }
}

/// The leading `bits` bits of an address.
fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_network_has_the_addresses_with_its_bits_and_no_others() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("127.0.0.0/8", "127.9.9.9", "::1"),
            ("0.0.0.0/0", "198.51.100.1", "2001:db8::1"),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert!(parsed.has(address(inside)), "{network} {inside}");
            assert!(!parsed.has(address(outside)), "{network} {outside}");
            assert!(parsed.to_string().starts_with(network), "{parsed}");
        }
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        assert!(Network::parse("192.0.2.0/24").unwrap().has(address("::ffff:192.0.2.9")));
        assert!(address("::ffff:127.0.0.1").is_loopback());
        assert_eq!(address("127.0.0.1"), Address::LOOPBACK);
    }

    #[test]
    fn what_is_no_network_is_refused_in_words() {
        for text in ["", "host", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.1/24", "::/129", "1/8"] {
            assert!(Network::parse(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
    }
}
