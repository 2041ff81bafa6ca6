//! TLS on a listener. Certificates that are files are read again when they change; connections that are open stay.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::config::ServerSettings;

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What PEM begins with, and no path.
const PEM: &str = "-----BEGIN";

/// Where a certificate or key comes from: PEM itself, or the path of a file.
type Source = String;

/// The certificates of a listener.
pub struct Tls {
    certificate: Source,
    key: Source,
    client_ca: Option<Source>,
    protocol: &'static [u8],
    loaded: Mutex<Loaded>,
}

struct Loaded {
    acceptor: TlsAcceptor,
    changed: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl Tls {
    /// The TLS that the settings ask for, `None` when they ask for none. `protocol` is what clients are told is spoken.
    pub fn new(settings: &ServerSettings, protocol: &'static [u8]) -> Result<Option<Arc<Self>>, String> {
        let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) else { return Ok(None) };
        let client_ca = settings.tls_client_ca.clone();
        let acceptor = acceptor(certificate, key, client_ca.as_deref(), protocol)?;
        let changed = times(&[Some(certificate), Some(key), client_ca.as_ref()]);
        let loaded = Mutex::new(Loaded { acceptor, changed, looked: Instant::now() });
        Ok(Some(Arc::new(Self { certificate: certificate.clone(), key: key.clone(), client_ca, protocol, loaded })))
    }

    /// What the next connection is accepted with, and what is wrong with files that have changed: then the certificates
    /// from before go on.
    pub fn acceptor(&self, now: Instant) -> (TlsAcceptor, Option<String>) {
        let mut loaded = self.loaded.lock();
        let trouble = if now.saturating_duration_since(loaded.looked) < LOOK_EVERY {
            None
        } else {
            loaded.looked = now;
            self.look_again(&mut loaded).err()
        };
        (loaded.acceptor.clone(), trouble)
    }

    fn look_again(&self, loaded: &mut Loaded) -> Result<(), String> {
        let changed = times(&[Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()]);
        if changed == loaded.changed {
            return Ok(());
        }
        // Noted even when they are no good: half of a pair may be there, and its other half changes the times again.
        loaded.changed = changed;
        loaded.acceptor = acceptor(&self.certificate, &self.key, self.client_ca.as_deref(), self.protocol)?;
        Ok(())
    }
}

/// When the files were changed; `None` for what is no file.
fn times(sources: &[Option<&Source>]) -> Vec<Option<SystemTime>> {
    let time = |source: &Source| fs::metadata(source).and_then(|found| found.modified()).ok();
    sources.iter().map(|source| source.filter(|source| !is_pem(source)).and_then(time)).collect()
}

fn is_pem(source: &str) -> bool {
    source.contains(PEM)
}

fn acceptor(
    certificate: &str,
    key: &str,
    client_ca: Option<&str>,
    protocol: &'static [u8],
) -> Result<TlsAcceptor, String> {
    let chain = certificates("tls_cert", certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read("tls_key", key)?).map_err(|error| {
        format!("tls_key: expected a private key in PEM, unencrypted, `{PEM} PRIVATE KEY-----` and so on: {error}")
    })?;
    let provider = Arc::new(default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("TLS: {error}"))?;
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(source) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(source)?), provider).build();
            config.with_client_cert_verifier(verifier.map_err(|error| format!("tls_client_ca: {error}"))?)
        }
    };
    let mut config = config
        .with_single_cert(chain, key)
        .map_err(|error| format!("tls_cert and tls_key cannot be used together: {error}"))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn roots(source: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls_client_ca", source)? {
        roots.add(certificate).map_err(|error| format!("tls_client_ca: {error}"))?;
    }
    Ok(roots)
}

fn certificates(setting: &str, source: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(setting, source)?;
    let wrong = |what: &dyn Display| {
        format!("{setting}: expected certificates in PEM, `{PEM} CERTIFICATE-----` and so on: {what}")
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong(&"there is none")),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(&error)),
    }
}

/// The PEM. Its contents are never part of an error: one of them is a key.
fn read(setting: &str, source: &str) -> Result<Vec<u8>, String> {
    if is_pem(source) {
        return Ok(source.as_bytes().to_vec());
    }
    let explain = |error: io::Error| match source.contains('\n') || source.len() > 4096 {
        true => format!("{setting}: expected PEM, which has `{PEM}`, or the path of a PEM file"),
        false => format!("{setting}: {source} cannot be read: {error}"),
    };
    fs::read(Path::new(source)).map_err(explain)
}
