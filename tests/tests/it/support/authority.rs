//! Certificates for servers and clients, made on the spot.

use lock_tests::redis_server::RedisServerBuilder;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::prelude::*;

/// Issues certificates, and is itself known by one.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    pub(crate) fn issue_for(&self, host: &str) -> Identity {
        self.issue(&CertificateParams::new([host.to_owned()]).unwrap())
    }

    pub(crate) fn trusted(&self) -> TlsOptions {
        TlsOptions::new().root_certificate(self.pem.as_str())
    }
}

impl Identity {
    pub(crate) fn server(&self) -> RedisServerBuilder {
        RedisServer::builder().tls(&self.certificate, &self.key)
    }

    pub(crate) fn shown_with(&self, tls: TlsOptions) -> TlsOptions {
        tls.client_certificate(self.certificate.as_str(), self.key.as_str())
    }
}
