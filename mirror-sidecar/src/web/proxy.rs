//! Which proxy leads to a URL: by the variables that git knows.

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
        let host = url.host_str().unwrap_or_default();
        match proxy {
            Some(proxy) if !self.is_direct(host) => {
                Proxy::new(proxy).map(Some).map_err(|_| WebError::Proxy)
            }
            _ => Ok(None),
        }
    }

    /// A name counts with all names below it.
    fn is_direct(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']);
        self.direct.iter().any(|name| {
            let below = host.strip_suffix(name.as_str());
            name == "*" || below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
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
                "NO_PROXY" => "localhost, .svc,example.org,::1",
                _ => return None,
            };
            Some(value.to_owned())
        });
        for (url, host) in [
            ("https://h/v", Some("secure")),
            ("http://h/v", Some("any")),
            ("https://localhost/v", None),
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
