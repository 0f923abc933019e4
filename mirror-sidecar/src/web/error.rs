//! Why a URL gives nothing, in words and in one word.

use std::net::IpAddr;
use std::time::Duration;

use tandem_shared::manifest::Reason;
use thiserror::Error;
use ureq::http::StatusCode;
use url::Url;

use super::places::Misled;

/// Why a URL gives nothing. Free of secrets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WebError {
    /// It is no URL.
    #[error("the URL {0:?} isn't accepted: {1}")]
    Malformed(String, &'static str),
    /// Its scheme isn't on the list.
    #[error("the URL {0:?} isn't accepted; schemes that are: {1}")]
    Scheme(String, String),
    /// Its host is where nobody may be led.
    #[error("{0} is {1}; such are never asked")]
    Forbidden(IpAddr, &'static str),
    /// The host's name has no address.
    #[error("the host isn't known ({0}); check the name and this pod's DNS")]
    UnknownHost(String),
    /// No connection, or it ended.
    #[error(
        "the server can't be reached ({0}); see whether it runs, and what a proxy or network policy lets through"
    )]
    Unreachable(String),
    /// The time is over.
    #[error("no whole answer within {} s; see whether the server is slow, or raise the timeout", .0.as_secs_f64().ceil())]
    Timeout(Duration),
    /// TLS went wrong.
    #[error(
        "the server isn't trusted ({0}); mount its authority's certificate and set SSL_CERT_FILE"
    )]
    NotTrusted(String),
    /// The server doesn't take who this process is, or wants to be told.
    #[error(
        "the server refuses this client ({0}); put a client certificate that it takes into the credential, as tls.crt and tls.key"
    )]
    NotLetIn(&'static str),
    /// There is nobody to trust.
    #[error(
        "no certificate authorities are known, so no server can be trusted; mount a CA bundle and set SSL_CERT_FILE"
    )]
    NoRoots,
    /// Status 401, with the `WWW-Authenticate` headers: how one may prove who asks.
    #[error("the server answered {}; {}", status(401), advice(401))]
    Unauthorized(Vec<String>),
    /// Another status than 200.
    #[error("the server answered {}; {}", status(*.0), advice(*.0))]
    Status(u16),
    /// They find no end.
    #[error("more than {0} redirects; name the place where the file is")]
    Redirects(usize),
    /// A redirect without a place.
    #[error("the server redirects to no URL")]
    Nowhere,
    /// A redirect from https to http.
    #[error(
        "the server redirects from https to {0}, which would be in the clear; that isn't followed"
    )]
    Downgrade(String),
    /// A redirect to a scheme that isn't on the list.
    #[error("the server redirects to a URL of the scheme {0:?}; schemes that are accepted: {1}")]
    Elsewhere(String, String),
    /// Too much.
    #[error("the server sends more than {0} bytes, the most that is taken of this")]
    TooLarge(u64),
    /// It can't be written where it is to lie.
    #[error(
        "what the server sends can't be written: {0}; free space on the volume or give it more"
    )]
    Sink(String),
    /// Compressed, unasked.
    #[error(
        "the server sends the file encoded as {0:?}, which was not asked for; serve it as it is"
    )]
    Encoded(String),
    /// The credential names an authority, and holds none.
    #[error(
        "the credential's ca.crt holds no certificate; put that of the server's authority there, as PEM"
    )]
    NoAuthority,
    /// A proxy variable that holds no proxy.
    #[error("the proxy that the environment names is none, such as http://host:3128")]
    Proxy,
    /// No HTTP.
    #[error("the server doesn't speak HTTP as it should ({0})")]
    Protocol(String),
    /// The same, after a redirect.
    #[error("after a redirect to {0}: {1}")]
    Behind(String, Box<Self>),
}

impl WebError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Malformed(..) | Self::Scheme(..) | Self::Forbidden(..) => Reason::InvalidUrl,
            Self::UnknownHost(_) => Reason::UnknownHost,
            Self::Unreachable(_) | Self::Proxy => Reason::Unreachable,
            Self::Timeout(_) => Reason::Timeout,
            Self::NotTrusted(_) | Self::NoRoots | Self::NoAuthority => Reason::HostNotTrusted,
            Self::NotLetIn(_) => Reason::AuthenticationFailed,
            Self::Unauthorized(_) | Self::Status(401 | 403 | 407) => Reason::AuthenticationFailed,
            Self::Status(404 | 410) => Reason::PathNotFound,
            Self::TooLarge(_) => Reason::TooLarge,
            Self::Sink(_) => Reason::Volume,
            Self::Encoded(_) => Reason::InvalidFile,
            Self::Status(_)
            | Self::Redirects(_)
            | Self::Nowhere
            | Self::Downgrade(_)
            | Self::Elsewhere(..)
            | Self::Protocol(_) => Reason::Remote,
            Self::Behind(_, error) => error.reason(),
        }
    }

    /// Says how long was waited, of an error that is about time.
    pub(super) fn within(self, timeout: Duration) -> Self {
        match self {
            Self::Timeout(_) => Self::Timeout(timeout),
            other => other,
        }
    }

    /// Says where it was, if that is another place than the one that was asked. Its path
    /// and query may be a token.
    pub(super) fn behind(self, asked: &Url, at: &Url) -> Self {
        if asked.origin() == at.origin() {
            self
        } else {
            Self::Behind(at.origin().ascii_serialization(), Box::new(self))
        }
    }
}

impl From<ureq::Error> for WebError {
    fn from(error: ureq::Error) -> Self {
        use ureq::Error;
        match error {
            Error::Timeout(_) => Self::Timeout(Duration::ZERO),
            Error::HostNotFound => Self::UnknownHost("no address".to_owned()),
            Error::Io(error) => {
                let inner = error.get_ref();
                match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                    Some(tls) => tls.clone().into(),
                    None => Self::Unreachable(error.to_string()),
                }
            }
            Error::Rustls(error) => error.into(),
            Error::Tls(why) => Self::NotTrusted(why.to_owned()),
            Error::TlsRequired | Error::Pem(_) => Self::NotTrusted("TLS failed".to_owned()),
            Error::ConnectionFailed => Self::Unreachable("no connection".to_owned()),
            Error::ConnectProxyFailed(why) => Self::Unreachable(format!("the proxy: {why}")),
            Error::Other(error) => match error.downcast::<Misled>().map(|misled| *misled) {
                Ok(Misled::Unknown(why)) => Self::UnknownHost(why),
                Ok(Misled::Forbidden(address, why)) => Self::Forbidden(address, why),
                Err(error) => Self::Unreachable(error.to_string()),
            },
            Error::Protocol(error) => Self::Protocol(error.to_string()),
            Error::LargeResponseHeader(..) => Self::Protocol("too many headers".to_owned()),
            // Their texts may repeat the URL, and its query with it.
            _ => Self::Protocol("the request can't be made".to_owned()),
        }
    }
}

impl From<rustls::Error> for WebError {
    fn from(error: rustls::Error) -> Self {
        use rustls::AlertDescription as Alert;
        // What a server says of the client's certificate, or of there being none.
        let why = match &error {
            rustls::Error::AlertReceived(alert) => match alert {
                Alert::CertificateRequired => Some("it wants a certificate"),
                Alert::NoCertificate => Some("it got no certificate"),
                Alert::BadCertificate => Some("the certificate is bad"),
                Alert::UnsupportedCertificate => Some("the certificate is of another kind"),
                Alert::CertificateRevoked => Some("the certificate is revoked"),
                Alert::CertificateExpired => Some("the certificate has expired"),
                Alert::CertificateUnknown => Some("the certificate isn't taken"),
                Alert::UnknownCA => Some("the certificate's authority is unknown to it"),
                Alert::AccessDenied => Some("the certificate has no access"),
                Alert::DecryptError => Some("the certificate can't be verified"),
                _ => None,
            },
            _ => None,
        };
        match why {
            Some(why) => Self::NotLetIn(why),
            None => Self::NotTrusted(error.to_string()),
        }
    }
}

fn status(code: u16) -> String {
    let name = StatusCode::from_u16(code)
        .ok()
        .and_then(|status| status.canonical_reason());
    name.map_or(code.to_string(), |name| format!("{code} {name}"))
}

fn advice(code: u16) -> &'static str {
    match code {
        401 | 403 => "give a credential that may read it",
        404 | 410 => "correct the URL, or put the file there",
        407 => "give the proxy's user and password in the proxy variable",
        _ => "only 200 is good",
    }
}
