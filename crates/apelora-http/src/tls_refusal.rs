//! Why a peer's certificate, or its TLS, was refused; and what the operator does about it.

use std::path::PathBuf;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CertificateError, Error, InvalidMessage};
use time::{Date, OffsetDateTime};

/// At most so many of a certificate's names are repeated in an error.
const NAMES_SHOWN: usize = 4;

/// A refused peer. Nothing of the request, credentials included, was sent to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsRefusal {
    /// The certificate's time is over.
    #[error("the certificate expired on {}: {}", date(*.0), self.remedy())]
    Expired(Option<Date>),
    /// The certificate's time has not come.
    #[error("the certificate is not valid before {}: {}", date(*.0), self.remedy())]
    NotYetValid(Option<Date>),
    /// The certificate names other hosts.
    #[error("the certificate is not for {wanted} but for {}: {}", .presented.join(", "), self.remedy())]
    WrongName {
        /// The name or address in the endpoint.
        wanted: String,
        /// The names of the certificate, cut to the first few.
        presented: Vec<String>,
    },
    /// The certificate has a common name at most, which does not count (RFC 9525 section 2).
    #[error("the certificate has no subject alternative name: {}", self.remedy())]
    NoAlternativeName,
    /// The address stands in the certificate as a DNS name, which never matches an address (RFC 9525 section 6.5).
    #[error("the certificate has {wanted} as a DNS name, not as an IP address: {}", self.remedy())]
    AddressAsDnsName {
        /// The address in the endpoint.
        wanted: String,
    },
    /// No trusted certificate has issued it; also every self-signed certificate which is not itself trusted.
    #[error("the certificate was not issued by a trusted authority: {}", self.remedy())]
    UnknownIssuer,
    /// A certificate authority's own certificate is used by the server: what many BMCs ship with.
    #[error("the server uses a certificate authority's certificate as its own: {}", self.remedy())]
    AuthorityAsServer,
    /// The certificate is not made for servers.
    #[error("the certificate is not made for a TLS server: {}", self.remedy())]
    WrongPurpose,
    /// Signature, key or form are too weak or unknown.
    #[error("the certificate's signature, key or form is not accepted ({why}): {remedy}", why = .0, remedy = self.remedy())]
    Weak(String),
    /// Not one of the pinned certificates.
    #[error("the certificate is not the pinned one: {}", self.remedy())]
    NotPinned,
    /// Another certificate than the one seen earlier by the same caller.
    #[error("the server shows another certificate than before: {}", self.remedy())]
    Changed,
    /// The peer wants a client certificate, or another one. Holds the alert's name.
    #[error("the server does not accept this client's certificate ({why}): {remedy}", why = .0, remedy = self.remedy())]
    ClientCertificate(String),
    /// No common protocol version, cipher suite or signature scheme.
    #[error("no common TLS protocol ({why}): {remedy}", why = .0, remedy = self.remedy())]
    TooOld(String),
    /// The peer does not speak TLS at all.
    #[error("the peer does not speak TLS: {}", self.remedy())]
    NotTls,
    /// The file of trusted certificates cannot be used.
    #[error("the file of trusted certificates {} cannot be used: {why}; {}", .path.display(), self.remedy())]
    TrustFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// This system has no trusted roots.
    #[error("this system has no trusted certificates: {}", self.remedy())]
    NoSystemRoots,
    /// Anything else.
    #[error("TLS was refused ({why}): {remedy}", why = .0, remedy = self.remedy())]
    Unusable(String),
}

impl TlsRefusal {
    /// What the operator does about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Expired(_) => {
                "install a new certificate; if the date is in the future, correct this host's clock"
            }
            Self::NotYetValid(_) => {
                "correct this host's clock, or install a certificate that is already valid"
            }
            Self::WrongName { .. } => {
                "use an address that the certificate names, or install a certificate for this one; if certificates \
                 were swapped between two servers, check the cabling and the addresses"
            }
            Self::NoAlternativeName => {
                "make a certificate with a subjectAltName (DNS:name or IP:address); a common name is not enough"
            }
            Self::AddressAsDnsName { .. } => {
                "make a certificate whose subjectAltName has IP:address instead of DNS:address"
            }
            Self::UnknownIssuer => {
                "name the issuing authority's certificate in the CA file, or install a certificate of the trusted \
                 authority; a self-signed server certificate must itself be in the CA file"
            }
            Self::AuthorityAsServer => {
                "replace the factory certificate by one of your own authority, with CA:FALSE and a subjectAltName"
            }
            Self::WrongPurpose => "make a certificate with extendedKeyUsage serverAuth",
            Self::Weak(_) => {
                "make an X.509 version 3 certificate with ECDSA or RSA of 2048 bits or more and SHA-256 or better"
            }
            Self::NotPinned => "if the server's certificate was renewed on purpose, pin the new one",
            Self::Changed => "find out why the certificate changed just now; if it was renewed, try again",
            Self::ClientCertificate(_) => {
                "name a client certificate and its key, and make the server trust that certificate"
            }
            Self::TooOld(_) => {
                "update the firmware: TLS 1.2 with ECDHE and AES-GCM or ChaCha20, or TLS 1.3, is needed; otherwise use \
                 the IPMI provider"
            }
            Self::NotTls => "check the port: HTTPS is needed, plain HTTP is never used",
            Self::TrustFile { .. } => "put the certificate of the issuing authority into it, in PEM form",
            Self::NoSystemRoots => "install the system's CA certificates, or name a CA file",
            Self::Unusable(_) => "inspect the server with openssl s_client -showcerts",
        }
    }

    /// The peer's alert about the client certificate, if it is one (RFC 8446 section 6.2).
    pub(crate) fn of_client(error: &Error) -> Option<Self> {
        use rustls::AlertDescription as Alert;
        match error {
            Error::AlertReceived(
                alert @ (Alert::CertificateRequired
                | Alert::NoCertificate
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied),
            ) => Some(Self::ClientCertificate(format!("{alert:?}"))),
            _ => None,
        }
    }

    /// Reads the reason out of rustls' error.
    pub(crate) fn of(error: &Error) -> Self {
        if let Some(refused) = Self::of_client(error) {
            return refused;
        }
        match error {
            Error::InvalidCertificate(why) => Self::of_certificate(why),
            Error::PeerIncompatible(why) => Self::TooOld(format!("{why:?}")),
            Error::AlertReceived(alert) => Self::TooOld(format!("the server's alert: {alert:?}")),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NotTls,
            Error::NoCertificatesPresented => Self::Unusable("the server shows no certificate".to_owned()),
            other => Self::Unusable(other.to_string()),
        }
    }

    fn of_certificate(why: &CertificateError) -> Self {
        match why {
            CertificateError::Expired => Self::Expired(None),
            CertificateError::ExpiredContext { not_after, .. } => Self::Expired(day(*not_after)),
            CertificateError::NotValidYet => Self::NotYetValid(None),
            CertificateError::NotValidYetContext { not_before, .. } => Self::NotYetValid(day(*not_before)),
            CertificateError::NotValidForNameContext { expected, presented } => {
                Self::of_name(expected, presented)
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::WrongPurpose
            }
            CertificateError::ApplicationVerificationFailure => Self::NotPinned,
            CertificateError::BadSignature
            | CertificateError::BadEncoding
            | CertificateError::UnhandledCriticalExtension
            | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                Self::Weak(why.to_string())
            }
            CertificateError::Other(other) => match other.0.downcast_ref::<webpki::Error>() {
                Some(webpki::Error::CaUsedAsEndEntity) => Self::AuthorityAsServer,
                Some(webpki::Error::UnsupportedCertVersion) => Self::Weak("not X.509 version 3".to_owned()),
                _ => Self::Unusable(why.to_string()),
            },
            _ => Self::Unusable(why.to_string()),
        }
    }

    fn of_name(expected: &ServerName<'_>, presented: &[String]) -> Self {
        let wanted = expected.to_str().into_owned();
        if presented.is_empty() {
            return Self::NoAlternativeName;
        }
        let names: Vec<String> = presented.iter().take(NAMES_SHOWN).map(|name| shown(name)).collect();
        // An equal iPAddress would have matched, so an equal text is a dNSName.
        if matches!(expected, ServerName::IpAddress(_)) && names.contains(&wanted) {
            return Self::AddressAsDnsName { wanted };
        }
        Self::WrongName { wanted, presented: names }
    }
}

/// A certificate's name, which comes as `DnsName("bmc")` or `IpAddress(10.0.0.1)`, made safe to print.
fn shown(name: &str) -> String {
    let inside = |kind: &str, end: &str| name.strip_prefix(kind).and_then(|rest| rest.strip_suffix(end));
    let bare = inside("DnsName(\"", "\")").or_else(|| inside("IpAddress(", ")")).unwrap_or(name);
    bare.chars().filter(char::is_ascii_graphic).take(64).collect()
}

fn day(at: UnixTime) -> Option<Date> {
    let seconds = i64::try_from(at.as_secs()).ok()?;
    OffsetDateTime::from_unix_timestamp(seconds).ok().map(OffsetDateTime::date)
}

fn date(day: Option<Date>) -> String {
    day.map_or_else(|| "an unknown day".to_owned(), |day| day.to_string())
}
