//! Redfish: from the map's entry to the client, and from what the client says to reasons and readings.

use std::fmt;

use apelora_fencing::ReasonCode;
use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::identity::{ByteOrder, RawIdentity};
use apelora_fencing::map::Access;
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer};
use apelora_redfish::{
    Conversation, Endpoint, NoReset, RedfishError, ReportedUuid, ResetAnswer, SendReport, SystemChoice,
    SystemPath,
};
use secrecy::SecretString;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Facts, Leave, Scrub, certificate, misconfigured, no_secret};
use crate::secret::SecretSource;

/// A conversation over Redfish.
pub(super) struct Talk {
    client: Conversation,
    latest: Option<apelora_redfish::Reported>,
    scrub: Scrub,
    /// SHA-256 of the BMC's certificate: it stays the same for the whole conversation.
    certificate: String,
}

impl Talk {
    pub(super) async fn open(
        target: &Target,
        secrets: &dyn SecretSource,
        by: Instant,
    ) -> Result<Self, BmcError> {
        let (to, password) = resolve(target, secrets)?;
        let scrub = Scrub::default().without(&password).without_pair(&to.user, &password);
        let client = Conversation::open(&to, &password, by).await.map_err(|why| bmc_error(&why, &scrub))?;
        let certificate = client.certificate().map(certificate::digest).unwrap_or_default();
        Ok(Self { client, latest: None, scrub, certificate })
    }

    pub(super) async fn read(&mut self, by: Instant) -> Result<Reported, BmcError> {
        self.latest = None;
        let seen = self.client.read(by).await.map_err(|why| bmc_error(&why, &self.scrub))?;
        let reported = Reported {
            identity: identity(&seen.uuid, &self.scrub),
            power: PowerWord::from_redfish(seen.power.word()),
            detail: self.scrub.text(format_args!(
                "{}, PowerState {}, certificate sha256 {}",
                seen.system, seen.power, self.certificate
            )),
        };
        self.latest = Some(seen);
        Ok(reported)
    }

    #[expect(clippy::disallowed_methods, reason = "the one caller of the Redfish client's power-off")]
    pub(super) async fn force_off(&mut self, leave: &mut Leave<'_>, by: Instant) -> SendAnswer {
        let Some(latest) = self.latest.take() else {
            return SendAnswer::NotSent(ReasonCode::PermitExpired);
        };
        let sent = self.client.force_off(&latest, &mut || leave.is_granted(), by).await;
        answer(&sent)
    }

    pub(super) fn facts(&self) -> Facts {
        let reset = self.latest.as_ref().map(apelora_redfish::Reported::reset_offered);
        let obstacle = reset.and_then(Result::err).map(|why| {
            let reason = match why {
                NoReset::Foreign => ReasonCode::TargetForeign,
                NoReset::NotOffered | NoReset::NotAllowed => ReasonCode::ResetNotOffered,
            };
            (reason, why.to_string())
        });
        let end = self.client.certificate().and_then(certificate::not_after);
        Facts {
            vendor: self.client.vendor(),
            system: Some(self.scrub.text(self.client.system())),
            certificate: Some((self.certificate.clone(), end)),
            questions: 1,
            obstacle,
            ..Facts::default()
        }
    }

    pub(super) async fn close(self, by: Instant) {
        self.client.close(by).await;
    }
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redfish(..)")
    }
}

/// The client's target, and the password.
fn resolve(
    target: &Target,
    secrets: &dyn SecretSource,
) -> Result<(apelora_redfish::Target, SecretString), BmcError> {
    let Access::Redfish { address, system, user, secret, ca_file } = &target.entry.access else {
        return Err(misconfigured(format!("`{}` is not mapped to a Redfish BMC", target.member)));
    };
    let wrong = |key: &str, why: &dyn fmt::Display| {
        misconfigured(format!("member `{}`, `{key}`: {why}", target.member))
    };
    let endpoint = Endpoint::https(&address.to_string()).map_err(|why| wrong("address", &why))?;
    let system = match (system, target.entry.identity.uuid()) {
        (Some(path), _) => SystemChoice::Path(SystemPath::parse(path).map_err(|why| wrong("system", &why))?),
        (None, Some(uuid)) => SystemChoice::Carrying(Uuid::from_bytes(uuid.encoded(ByteOrder::Rfc4122))),
        (None, None) => return Err(wrong("uuid", &"is missing")),
    };
    let password = secrets.reveal(secret).map_err(|why| no_secret(why.to_string()))?;
    let ca_file = ca_file.as_ref().map(Into::into);
    Ok((apelora_redfish::Target { endpoint, ca_file, user: user.clone(), system }, password))
}

/// The client's words for reasons are those of the fencing core; a test asks for each of them.
fn reason(word: &str) -> ReasonCode {
    word.parse().unwrap_or(ReasonCode::Protocol)
}

fn bmc_error(why: &RedfishError, scrub: &Scrub) -> BmcError {
    let reason = match why {
        // The map was checked before; what is left is a password that HTTP cannot carry.
        RedfishError::Password => ReasonCode::SecretMissing,
        why => reason(why.reason()),
    };
    BmcError { reason, transient: why.is_passing(), detail: scrub.text(why) }
}

fn identity(uuid: &ReportedUuid, scrub: &Scrub) -> RawIdentity {
    match uuid {
        ReportedUuid::Missing => RawIdentity::Missing,
        ReportedUuid::Malformed => RawIdentity::Text("malformed".to_owned()),
        ReportedUuid::Text(text) => RawIdentity::Text(scrub.text(text)),
    }
}

fn answer(sent: &SendReport) -> SendAnswer {
    match sent {
        SendReport::NotSent(why) => SendAnswer::NotSent(reason(why.reason())),
        SendReport::MaybeSent(ResetAnswer::Accepted { .. }) => SendAnswer::Accepted,
        SendReport::MaybeSent(ResetAnswer::Rejected { .. }) => SendAnswer::Declined,
        SendReport::MaybeSent(ResetAnswer::Denied { .. }) => SendAnswer::Rejected(ReasonCode::Credential),
        SendReport::MaybeSent(ResetAnswer::Redirected { .. }) => SendAnswer::Rejected(ReasonCode::Redirect),
        SendReport::MaybeSent(ResetAnswer::None(_)) => SendAnswer::Unanswered,
    }
}

#[cfg(test)]
mod tests {
    use apelora_redfish::NotSent;

    use super::*;

    #[test]
    fn every_word_of_the_client_is_a_reason() {
        let path = || SystemPath::parse("/redfish/v1/Systems/1").unwrap();
        let errors = [
            RedfishError::Auth { status: 401, message_id: None },
            RedfishError::Status { status: 503, path: String::new(), message_id: None },
            RedfishError::Redirect { status: 302, path: String::new() },
            RedfishError::BadJson { path: String::new(), line: 0, column: 0 },
            RedfishError::SystemPath { asked: path() },
            RedfishError::NoSystem,
            RedfishError::TooManySystems(17),
            RedfishError::ForeignMember,
            RedfishError::NoneCarries { wanted: Uuid::nil(), seen: Vec::new() },
            RedfishError::NoneCarries { wanted: Uuid::nil(), seen: vec![(path(), Some(String::new()))] },
            RedfishError::Ambiguous(Uuid::nil()),
            RedfishError::User,
        ];
        for why in &errors {
            let error = bmc_error(why, &Scrub::default());
            assert_eq!(error.reason.as_str(), why.reason());
        }
        let password = bmc_error(&RedfishError::Password, &Scrub::default());
        assert_eq!(password.reason, ReasonCode::SecretMissing);
        for why in [
            NotSent::NotFresh,
            NotSent::Withdrawn,
            NotSent::NotRunning(apelora_redfish::PowerWord::Off),
            NotSent::NotRunning(apelora_redfish::PowerWord::Unknown),
            NotSent::NoReset(NoReset::Foreign),
            NotSent::NoReset(NoReset::NotAllowed),
            NotSent::NoReset(NoReset::NotOffered),
        ] {
            assert_eq!(reason(why.reason()).as_str(), why.reason());
        }
    }

    #[test]
    fn a_report_keeps_exactly_whether_something_was_sent() {
        let reports = [
            (SendReport::NotSent(NotSent::Withdrawn), SendAnswer::NotSent(ReasonCode::PermitExpired)),
            (SendReport::MaybeSent(ResetAnswer::Accepted { status: 204 }), SendAnswer::Accepted),
            (
                SendReport::MaybeSent(ResetAnswer::Rejected { status: 409, message_id: None }),
                SendAnswer::Declined,
            ),
            (
                SendReport::MaybeSent(ResetAnswer::Denied { status: 403, message_id: None }),
                SendAnswer::Rejected(ReasonCode::Credential),
            ),
            (
                SendReport::MaybeSent(ResetAnswer::Redirected { status: 307 }),
                SendAnswer::Rejected(ReasonCode::Redirect),
            ),
        ];
        for (report, expected) in &reports {
            assert_eq!(answer(report), *expected);
            let not_sent = matches!(expected, SendAnswer::NotSent(_));
            assert_eq!(report.may_have_been_sent(), !not_sent, "{report:?}");
        }
    }
}
