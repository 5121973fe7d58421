//! Throw-away certificates, good and bad.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P384_SHA384, SanType, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::https::client::AnyClient;

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The generator's word.
    #[error("no certificate can be made: {0}")]
    Generate(#[from] rcgen::Error),
    /// The TLS library's word.
    #[error("no TLS server can be made of the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

/// When a certificate is valid. The dates are far away from any clock that a test may run under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// 2020 to 2120.
    Valid,
    /// 2020 to 2021.
    Expired,
    /// 2110 to 2120.
    NotYet,
}

/// The TLS version that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2 only, as many BMCs.
    V12,
    /// 1.3 only.
    V13,
}

/// What a server's certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePlan {
    /// The common name.
    pub common_name: String,
    /// `dNSName` alternative names, also impossible ones such as an address.
    pub dns_names: Vec<String>,
    /// `iPAddress` alternative names.
    pub addresses: Vec<IpAddr>,
    /// When it is valid.
    pub life: Life,
    /// Whether it may issue certificates: what factory certificates say.
    pub is_authority: bool,
}

impl CertificatePlan {
    /// A good certificate for one address.
    #[must_use]
    pub fn for_address(address: IpAddr) -> Self {
        Self {
            common_name: "bmc".to_owned(),
            dns_names: Vec::new(),
            addresses: vec![address],
            life: Life::Valid,
            is_authority: false,
        }
    }

    fn params(&self) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&self.common_name);
        for name in &self.dns_names {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        params.subject_alt_names.extend(self.addresses.iter().copied().map(SanType::IpAddress));
        let (from, to) = match self.life {
            Life::Valid => (2020, 2120),
            Life::Expired => (2020, 2021),
            Life::NotYet => (2110, 2120),
        };
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        if self.is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        } else {
            params.is_ca = IsCa::ExplicitNoCa;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }
        Ok(params)
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// A certificate authority that lives as long as the process.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// Makes one.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn new(common_name: &str) -> Result<Self, PkiError> {
        let plan = CertificatePlan {
            common_name: common_name.to_owned(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            life: Life::Valid,
            is_authority: true,
        };
        let mut params = plan.params()?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Its certificate, in PEM form: what a CA file holds.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a server's certificate.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn issue(&self, plan: &CertificatePlan) -> Result<Identity, PkiError> {
        let key = KeyPair::generate()?;
        let certificate = plan.params()?.signed_by(&key, &self.issuer)?;
        Ok(Identity { pem: certificate.pem(), certificate: certificate.der().clone(), key })
    }
}

/// A certificate and its key: a server's, or a client's.
pub struct Identity {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Identity {
    /// A certificate that nobody but itself has signed.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn self_signed(plan: &CertificatePlan) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let certificate = plan.params()?.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), certificate: certificate.der().clone(), key })
    }

    /// As [`self_signed`](Self::self_signed), with an ECDSA P-384 key, as Incus makes them.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn self_signed_p384(plan: &CertificatePlan) -> Result<Self, PkiError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?;
        let certificate = plan.params()?.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), certificate: certificate.der().clone(), key })
    }

    /// A client's certificate that nobody but itself has signed, as `incus remote generate-certificate` makes one.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn client(common_name: &str) -> Result<Self, PkiError> {
        let plan = CertificatePlan {
            common_name: common_name.to_owned(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            life: Life::Valid,
            is_authority: false,
        };
        let mut params = plan.params()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?;
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), certificate: certificate.der().clone(), key })
    }

    /// The same certificate with a key that is not its own: what somebody has who has only seen it.
    ///
    /// # Errors
    /// When the generator fails.
    pub fn with_another_key(&self) -> Result<Self, PkiError> {
        Ok(Self { certificate: self.certificate.clone(), pem: self.pem.clone(), key: KeyPair::generate()? })
    }

    /// The certificate, in PEM form.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The key, in PEM form.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The certificate, in DER form.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.certificate
    }

    /// The TLS side of a server that shows this certificate.
    ///
    /// # Errors
    /// When the TLS library refuses the key.
    pub fn server(&self, version: TlsVersion) -> Result<Arc<ServerConfig>, PkiError> {
        self.serve(version, false)
    }

    /// As [`server`](Self::server), for a server that asks its clients for a certificate and takes any, or none.
    ///
    /// # Errors
    /// When the TLS library refuses the key.
    pub fn server_asking_clients(&self, version: TlsVersion) -> Result<Arc<ServerConfig>, PkiError> {
        self.serve(version, true)
    }

    fn serve(&self, version: TlsVersion, asks: bool) -> Result<Arc<ServerConfig>, PkiError> {
        let version = match version {
            TlsVersion::V12 => &rustls::version::TLS12,
            TlsVersion::V13 => &rustls::version::TLS13,
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(default_provider());
        // Put together by hand: the usual way checks that certificate and key belong together.
        let key =
            CertifiedKey::new(vec![self.certificate.clone()], provider.key_provider.load_private_key(key)?);
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version])?;
        let builder = if asks {
            builder.with_client_cert_verifier(AnyClient::new())
        } else {
            builder.with_no_client_auth()
        };
        Ok(Arc::new(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)))))
    }
}
