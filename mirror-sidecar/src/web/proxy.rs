//! Which proxy leads to a URL: by the variables that git knows.

use std::net::IpAddr;

use ureq::Proxy;
use url::Url;

use super::WebError;

/// What the environment says of proxies.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    http: Option<String>,
    https: Option<String>,
    /// Hosts that are asked directly.
    direct: Vec<String>,
}

impl Proxies {
    /// Those of this process.
    pub(super) fn of_process() -> Self {
        Self::of_variables(|name| std::env::var(name).ok())
    }

    pub(super) fn of_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| get(name));
            found.find(|value| !value.is_empty())
        };
        let all = || first(&["all_proxy", "ALL_PROXY"]);
        Self {
            http: first(&["http_proxy", "HTTP_PROXY"]).or_else(all),
            https: first(&["https_proxy", "HTTPS_PROXY"]).or_else(all),
            direct: first(&["no_proxy", "NO_PROXY"])
                .unwrap_or_default()
                .split([',', ' '])
                .map(|host| host.trim().trim_start_matches('.').to_ascii_lowercase())
                .filter(|host| !host.is_empty())
                .collect(),
        }
    }

    /// The proxy that leads to `url`, if one does.
    ///
    /// # Errors
    /// If the variable holds none.
    pub(super) fn of(&self, url: &Url) -> Result<Option<Proxy>, WebError> {
        let proxy = match url.scheme() {
            "https" => &self.https,
            _ => &self.http,
        };
        match proxy {
            Some(proxy) if !self.is_direct(url) => {
                Proxy::new(proxy).map(Some).map_err(|_| WebError::Proxy)
            }
            _ => Ok(None),
        }
    }

    /// A name counts with all names below it, and a network with all its addresses; with a
    /// port, for that port alone.
    fn is_direct(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        self.direct.iter().any(|entry| {
            let (name, port) = match entry.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') => (name, port.parse::<u16>().ok()),
                _ => (entry.as_str(), None),
            };
            let below = host.strip_suffix(name);
            port.is_none_or(|port| url.port_or_known_default() == Some(port))
                && (name == "*"
                    || below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                    || is_within(host, name))
        })
    }
}

/// Whether an address is one of a network, written as `10.0.0.0/8`.
fn is_within(host: &str, network: &str) -> bool {
    let bits = |text: &str| match text.parse().ok()? {
        IpAddr::V4(address) => Some((u128::from(address.to_bits()) << 96, 32)),
        IpAddr::V6(address) => Some((address.to_bits(), 128)),
    };
    let Some((base, length)) = network.split_once('/') else {
        return false;
    };
    match (bits(host), bits(base), length.parse::<u32>()) {
        (Some((host, long)), Some((base, same)), Ok(length)) if long == same && length <= long => {
            length == 0 || (host ^ base) >> (128 - length) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_has_its_own_and_some_hosts_none() {
        let proxies = Proxies::of_variables(|name| {
            let value = match name {
                "HTTPS_PROXY" => "http://me:pw@secure:3128",
                "all_proxy" => "socks5h://any:1080",
                "NO_PROXY" => {
                    "localhost, .svc,example.org,::1,10.96.0.0/12,fd00::/8,some.test:8443"
                }
                _ => return None,
            };
            Some(value.to_owned())
        });
        for (url, host) in [
            ("https://h/v", Some("secure")),
            ("http://h/v", Some("any")),
            ("https://localhost/v", None),
            ("https://10.97.1.2/v", None),
            ("https://10.112.0.1/v", Some("secure")),
            ("https://[fd12::1]/v", None),
            ("https://[fe12::1]/v", Some("secure")),
            ("https://some.test:8443/v", None),
            ("https://some.test/v", Some("secure")),
            ("https://a.b.svc/v", None),
            ("https://EXAMPLE.org/v", None),
            ("https://an-example.org/v", Some("secure")),
            ("https://[::1]:8443/v", None),
        ] {
            let proxy = proxies.of(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(proxy.as_ref().map(Proxy::host), host, "{url}");
        }
        let everywhere = Proxies {
            direct: vec!["*".to_owned()],
            ..proxies
        };
        let url = Url::parse("https://h/v").unwrap();
        assert_eq!(everywhere.of(&url).unwrap(), None);
        assert_eq!(Proxies::default().of(&url).unwrap(), None);
    }
}
