//! Where names may lead. A HelmRelease names the host and reads what it gives,
//! so no name leads to where a cloud keeps the credentials of its machines.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use url::{Host, Url};

use super::WebError;

/// Looks names up, and leaves out where nobody may be led.
#[derive(Debug, Default)]
pub(super) struct Places {
    system: DefaultResolver,
}

/// Why a name leads nowhere.
#[derive(Debug)]
pub(super) enum Misled {
    /// It isn't known.
    Unknown(String),
    /// All its addresses are left out; the first of them.
    Forbidden(IpAddr, &'static str),
}

impl fmt::Display for Misled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why) => f.write_str(why),
            Self::Forbidden(address, why) => write!(f, "{address} is {why}"),
        }
    }
}

impl std::error::Error for Misled {}

impl Resolver for Places {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let misled = |why| ureq::Error::Other(Box::new(why));
        let found = self
            .system
            .resolve(uri, config, timeout)
            .map_err(|error| match error {
                ureq::Error::Io(error) => misled(Misled::Unknown(error.to_string())),
                ureq::Error::HostNotFound => misled(Misled::Unknown("no address".to_owned())),
                other => other,
            })?;
        let mut kept = self.empty();
        let mut left_out = None;
        for address in found.iter().map(SocketAddr::ip).zip(found.iter()) {
            match forbidden(address.0) {
                None => kept.push(*address.1),
                Some(why) => left_out = left_out.or(Some(Misled::Forbidden(address.0, why))),
            }
        }
        match left_out {
            Some(left_out) if kept.is_empty() => Err(misled(left_out)),
            _ => Ok(kept),
        }
    }
}

/// Refuses a URL whose host is an address that nobody may be led to.
pub(crate) fn literal(url: &Url) -> Result<(), WebError> {
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        _ => return Ok(()),
    };
    match forbidden(address) {
        Some(why) => Err(WebError::Forbidden(address, why)),
        None => Ok(()),
    }
}

/// What machines of Alibaba and of Azure ask about themselves, beside link-local addresses.
const METADATA: [[u8; 4]; 2] = [[100, 100, 100, 200], [168, 63, 129, 16]];
const CLOUD: &str = "an address that a cloud's machines ask about themselves";

/// Why nobody may be led to an address, if so.
fn forbidden(address: IpAddr) -> Option<&'static str> {
    const LINK: &str = "a link-local address, where clouds keep the credentials of their machines";
    match address {
        IpAddr::V4(address) if address.is_link_local() => Some(LINK),
        IpAddr::V4(address) if METADATA.contains(&address.octets()) => Some(CLOUD),
        IpAddr::V4(address) if address.octets()[0] == 0 => Some("an address of no host"),
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => match inner(address) {
            Some(inner) => forbidden(IpAddr::V4(inner)),
            None if address.is_unspecified() => Some("an address of no host"),
            // The second ones are what Amazon's machines ask over IPv6.
            None if address.is_unicast_link_local()
                || matches!(address.segments(), [0xfd00, 0x0ec2, ..]) =>
            {
                Some(LINK)
            }
            None => None,
        },
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, behind NAT64 (its prefix for local use, too), or 6to4.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_out_of_reach_in_every_spelling() {
        for (host, refused) in [
            ("169.254.169.254", true),
            ("[::ffff:169.254.169.254]", true),
            ("[64:ff9b::a9fe:a9fe]", true),
            ("[2002:a9fe:a9fe::1]", true),
            ("100.100.100.200", true),
            ("168.63.129.16", true),
            ("[fe80::1]", true),
            ("[fd00:ec2::254]", true),
            ("[fd00:ec2::23]", true),
            ("[64:ff9b:1::a9fe:a9fe]", true),
            // Numbers as browsers read them.
            ("0xa9fea9fe", true),
            ("2852039166", true),
            ("0.0.0.0", true),
            ("[::]", true),
            ("[::ffff:0.0.0.0]", true),
            ("127.0.0.1", false),
            ("[::1]", false),
            ("10.0.0.1", false),
            ("[fd00::1]", false),
            ("example.org", false),
        ] {
            let url = Url::parse(&format!("http://{host}/v")).unwrap();
            assert_eq!(literal(&url).is_err(), refused, "{host}");
        }
    }
}
