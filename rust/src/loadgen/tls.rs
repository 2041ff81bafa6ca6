//! TLS from the client's side.

use std::sync::Arc;
use std::{env, fs};

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::target::{Protocol, Target};
use super::{CallError, CallResult};

/// Names a file with the authorities to trust instead of the system's, as for OpenSSL's programs.
const OWN_FILE: &str = "SSL_CERT_FILE";
/// Where Debian, Fedora, openSUSE and Alpine keep the authorities that they trust.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How to speak TLS with a target.
#[derive(Debug, Clone)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

impl Tls {
    /// What a target needs; `None` when it is spoken to in the clear.
    pub fn new(target: &Target) -> CallResult<Option<Tls>> {
        if !target.tls {
            return Ok(None);
        }
        let protocol: &[u8] = if target.protocol == Protocol::Grpc { b"h2" } else { b"http/1.1" };
        let name = ServerName::try_from(target.host().to_owned());
        let name = name.map_err(|error| CallError::Usage(format!("{:?} is no host: {error}", target.host())))?;
        Ok(Some(Tls { config: config(&authorities()?, protocol)?, name }))
    }
}

fn config(pem: &[u8], protocol: &[u8]) -> CallResult<Arc<ClientConfig>> {
    let wrong = |what: String| CallError::Usage(format!("TLS: {what}; {OWN_FILE} may name a file of certificates"));
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| wrong(format!("the authorities to trust are no PEM: {error}")))?;
    let mut roots = RootCertStore::empty();
    // Systems trust some old ones that cannot be used any more.
    if roots.add_parsable_certificates(found).0 == 0 {
        return Err(wrong("there is no authority to trust".into()));
    }
    let builder =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(error.to_string()))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// PEM of the authorities to trust.
fn authorities() -> CallResult<Vec<u8>> {
    if let Some(path) = env::var_os(OWN_FILE) {
        let unreadable = |error| CallError::Usage(format!("{OWN_FILE}: {} cannot be read: {error}", path.display()));
        return fs::read(&path).map_err(unreadable);
    }
    let none =
        || CallError::Usage(format!("TLS: this system keeps no certificates; name a file of them in {OWN_FILE}"));
    SYSTEM_FILES.iter().find_map(|path| fs::read(path).ok()).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_targets_over_tls_need_it() {
        assert!(Tls::new(&Target::parse("grpc://localhost:1").unwrap()).unwrap().is_none());
    }

    #[test]
    fn authorities_that_are_none_are_refused_with_a_way_out() {
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = config(pem.as_bytes(), b"h2").unwrap_err().to_string();
            assert!(error.contains("SSL_CERT_FILE may name a file"), "{pem}: {error}");
        }
    }
}
