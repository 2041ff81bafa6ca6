//! Where a server is and which wire it speaks: `grpc://HOST:PORT` or `http://HOST:PORT`.

use super::{CallError, CallResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    Http,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    /// `HOST:PORT`, an IPv6 address in brackets.
    pub authority: String,
}

impl Target {
    pub fn parse(text: &str) -> CallResult<Target> {
        let refuse = |why: &str| {
            Err(CallError::Usage(format!("target {text:?} {why}; write it as grpc://HOST:PORT or http://HOST:PORT")))
        };
        let Some((scheme, rest)) = text.split_once("://") else { return refuse("has no scheme") };
        let protocol = match scheme {
            "grpc" => Protocol::Grpc,
            "http" => Protocol::Http,
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
        Ok(Target { protocol, authority: authority.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port_are_needed() {
        let target = Target::parse("grpc://localhost:8500").unwrap();
        assert_eq!((target.protocol, target.authority.as_str()), (Protocol::Grpc, "localhost:8500"));
        assert_eq!(Target::parse("http://[::1]:8501/").unwrap().authority, "[::1]:8501");
        for wrong in
            ["localhost:8500", "https://a:1", "grpc://a", "grpc://:1", "grpc://a:b", "grpc://::1:5", "http://a:1/v1"]
        {
            let error = Target::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("write it as grpc://HOST:PORT"), "{wrong}: {error}");
        }
    }
}
