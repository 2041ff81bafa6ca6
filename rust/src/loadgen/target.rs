//! Where a server is and which wire it speaks: `grpc://HOST:PORT` or `http://HOST:PORT`, over TLS `grpcs://` and
//! `https://`.

use super::{CallError, CallResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    Http,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    pub tls: bool,
    /// `HOST:PORT`, an IPv6 address in brackets.
    pub authority: String,
}

impl Target {
    pub fn parse(text: &str) -> CallResult<Target> {
        let refuse = |why: &str| {
            let mend = "write it as grpc://HOST:PORT or http://HOST:PORT, over TLS grpcs:// or https://";
            Err(CallError::Usage(format!("target {text:?} {why}; {mend}")))
        };
        let Some((scheme, rest)) = text.split_once("://") else { return refuse("has no scheme") };
        let (protocol, tls) = match scheme {
            "grpc" => (Protocol::Grpc, false),
            "grpcs" => (Protocol::Grpc, true),
            "http" => (Protocol::Http, false),
            "https" => (Protocol::Http, true),
            _ => return refuse("has an unknown scheme"),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let Some((host, port)) = authority.rsplit_once(':') else { return refuse("has no port") };
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) || host.contains(['/', '@', ' ']) {
            return refuse("has no usable host");
        }
        if port.parse::<u16>().is_err() {
            return refuse("has no usable port");
        }
        Ok(Target { protocol, tls, authority: authority.to_owned() })
    }

    /// The host without its port, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port_are_needed() {
        let target = Target::parse("grpc://localhost:8500").unwrap();
        assert_eq!((target.protocol, target.authority.as_str()), (Protocol::Grpc, "localhost:8500"));
        let target = Target::parse("http://[::1]:8501/").unwrap();
        assert_eq!((target.authority.as_str(), target.host(), target.tls), ("[::1]:8501", "::1", false));
        for (text, protocol) in [("grpcs://a:1", Protocol::Grpc), ("https://a:1", Protocol::Http)] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.protocol, target.tls, target.host()), (protocol, true, "a"));
        }
        for wrong in
            ["localhost:8500", "ftp://a:1", "grpc://a", "grpc://:1", "grpc://a:b", "grpc://::1:5", "http://a:1/v1"]
        {
            let error = Target::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("write it as grpc://HOST:PORT"), "{wrong}: {error}");
        }
    }
}
