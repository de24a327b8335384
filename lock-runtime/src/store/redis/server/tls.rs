//! The certificates that `rediss://` trusts and presents, and the meaning of a refused handshake.
// S-33.

use std::error::Error as StdError;
use std::sync::Arc;
use std::{fmt, io};

use redis::{ClientTlsConfig, RedisError, TlsCertificates};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, RootCertStore};

use crate::error::{StoreError, StoreErrorKind};

/// The certificates that a `rediss://` connection trusts and presents.
///
/// Without a [`root_certificate`](Self::root_certificate) the server's certificate must come from an authority
/// of Mozilla's list; with one, *only* from the given ones. The host name is always verified. TLS 1.2 and 1.3.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_runtime::client::TlsOptions;
/// use lock_runtime::LockClient;
///
/// let tls = TlsOptions::new()
///     .root_certificate(std::fs::read("ca.pem")?)
///     .client_certificate(std::fs::read("client.pem")?, std::fs::read("client.key")?);
/// let client = LockClient::builder().tls(tls).connect("rediss://redis.internal:6380").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "options do nothing until a connection is made with them"]
pub struct TlsOptions {
    roots: Vec<Vec<u8>>,
    client: Option<ClientCertificate>,
}

#[derive(Clone)]
struct ClientCertificate {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl TlsOptions {
    /// Trusts Mozilla's list of authorities and presents no certificate, as `rediss://` does by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates of these authorities, in PEM, in place of Mozilla's list; called
    /// again, adds to them.
    ///
    /// Pass the certificate of the authority that issued the server's, not the server's own. Connecting reports
    /// an invalid certificate.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(pem.into());
        self
    }

    /// Presents this certificate to a server that asks for one (mutual TLS): its chain, beginning with itself,
    /// and its private key (PKCS #8, PKCS #1 or SEC 1, not encrypted), both in PEM.
    ///
    /// Connecting reports an invalid certificate or key.
    pub fn client_certificate(
        mut self,
        chain: impl Into<Vec<u8>>,
        private_key: impl Into<Vec<u8>>,
    ) -> Self {
        self.client = Some(ClientCertificate { chain: chain.into(), key: private_key.into() });
        self
    }

    /// The options in the client library's form, which itself ignores some invalid ones.
    pub(crate) fn checked(&self) -> Result<TlsCertificates, StoreError> {
        for pem in &self.roots {
            let mut store = RootCertStore::empty();
            let usable = certificates(pem)
                .is_some_and(|roots| roots.into_iter().all(|root| store.add(root).is_ok()));
            if !usable {
                return Err(wrong("the root certificate is not a certificate in PEM"));
            }
        }
        if let Some(client) = &self.client {
            client.check()?;
        }
        let client_tls = self.client.clone();
        Ok(TlsCertificates {
            client_tls: client_tls.map(|ClientCertificate { chain, key }| ClientTlsConfig {
                client_cert: chain,
                client_key: key,
            }),
            root_cert: (!self.roots.is_empty()).then(|| self.roots.join(&b'\n')),
        })
    }
}

impl ClientCertificate {
    // No error here keeps its cause: one about PEM quotes lines, and they may be of the key.
    fn check(&self) -> Result<(), StoreError> {
        let Some(chain) = certificates(&self.chain) else {
            return Err(wrong("the client certificate is not a certificate in PEM"));
        };
        let Ok(key) = PrivateKeyDer::from_pem_slice(&self.key) else {
            return Err(wrong(
                "the client certificate's key is not a private key in PEM, without a passphrase",
            ));
        };
        let ours = rustls::crypto::ring::default_provider;
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ours()));
        match CertifiedKey::from_der(chain, key, &provider) {
            Ok(_) => Ok(()),
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(wrong("the client certificate and its private key do not belong together"))
            }
            Err(_) => Err(wrong("the client certificate or its key is of a kind not supported")),
        }
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("root_certificates", &self.roots.len())
            .field("client_certificate", &self.client.is_some())
            .finish()
    }
}

/// At least one certificate, or nothing.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!found.is_empty()).then_some(found)
}

fn wrong(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Config, what)
}

/// Returns the error of a connection that failed because of TLS.
pub(crate) fn refusal(error: &RedisError) -> Option<(StoreErrorKind, &'static str)> {
    use rustls::Error;
    use {AlertDescription as Alert, CertificateError as Bad, StoreErrorKind as Kind};

    Some(match cause(error)? {
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => (
            Kind::Config,
            "the server's certificate is not trusted; give the one of the authority that issued it \
             with `TlsOptions::root_certificate`",
        ),
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => (
            Kind::Config,
            "the server's certificate is for another host name; connect to one that it is for",
        ),
        Error::InvalidCertificate(
            Bad::Expired
            | Bad::ExpiredContext { .. }
            | Bad::NotValidYet
            | Bad::NotValidYetContext { .. },
        ) => (
            Kind::Config,
            "the server's certificate has expired or is not valid yet; renew it, or set the clock",
        ),
        // For example one that signs itself and declares itself an authority.
        Error::InvalidCertificate(_) => (
            Kind::Config,
            "the server's certificate cannot be trusted as it is; let an authority issue one, and \
             give that authority's with `TlsOptions::root_certificate`",
        ),
        Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            // A server of TLS 1.2 sends this to a client without a certificate, among others.
            | Alert::HandshakeFailure,
        ) => (
            Kind::Denied,
            "the server refuses this client; give a certificate that it trusts with \
             `TlsOptions::client_certificate`",
        ),
        Error::AlertReceived(Alert::ProtocolVersion | Alert::InsufficientSecurity)
        | Error::PeerIncompatible(_) => {
            (Kind::Config, "the server has no version or cipher of TLS in common with this client")
        }
        Error::InvalidMessage(_) => {
            (Kind::Config, "the server does not speak TLS there; write redis://, or its TLS port")
        }
        _ => (Kind::Unavailable, "the TLS handshake with the server failed"),
    })
}

/// The TLS library's own error, which the client library keeps in an `io::Error` in an `Arc`.
fn cause(error: &RedisError) -> Option<&rustls::Error> {
    let cause = error.source()?.downcast_ref::<Arc<dyn StdError + Send + Sync>>()?;
    cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}
