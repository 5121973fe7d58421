//! A person's words: that a member is off, and that an entry of the BMC map is trusted again.

use apelora_fencing::ReasonCode;
use apelora_fencing::name::{Incarnation, MemberName};
use apelora_maintenance::{Authority, NodeFacts};
use apelora_store::{ConfirmError, PersonsWord};
use http::StatusCode;
use http::header::ORIGIN;
use serde_json::{Map, Value};
use tracing::{error, info, warn};

use super::view::{ConfirmedOff, Trusted};
use super::{member_name, members};
use crate::app::RETRY_AFTER;
use crate::auth::CallerKind;
use crate::authorise::{self, authorise};
use crate::baremetal::Call;
use crate::error::ApiError;
use crate::reply::Success;

/// The longest reason, in characters.
const REASON_MAX: usize = 4_096;

/// POST /apelora/v1/members/{member}/confirm-off.
pub(super) async fn confirm_off(call: &Call<'_>, name: &str) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_CONFIRM_OFF, None)?;
    call.request.query().only(&[])?;
    let named = member_name(name)?;
    let body = body(call, &["member", "incarnation", "reason"])?;
    let typed = member_name(text(&body, "member")?)?;
    if typed != named {
        return Err(ApiError::bad_request(format!(
            "The body names member {typed} and the address names {named}. Type the name of the member that is off"
        )));
    }
    let shown = incarnation(&body)?;
    let reason = reason(&body)?;
    let (_, member) = members::find(call.app, name).await?;
    let word = PersonsWord { member, shown, reason, by: person(call) };
    let confirmed = match call.app.store().confirm_off(&word, &call.app.stamp()).await {
        Ok(confirmed) => confirmed,
        Err(ConfirmError::Refused(why)) => return Err(refused(&word.member, shown, why)),
        Err(other) => return Err(failed(&other, &word.member)),
    };
    info!(member = ?word.member.as_str(), incarnation = shown.0, user = ?word.by.user, "a person confirmed a member off");
    let warnings: Vec<String> = confirmed.warnings.iter().map(ToString::to_string).collect();
    for warning in &warnings {
        warn!(member = ?word.member.as_str(), ?warning, "confirmed off");
    }
    super::json(&ConfirmedOff {
        member: word.member.to_string(),
        incarnation: shown.0,
        proof: "person",
        warnings,
    })
}

/// POST /apelora/v1/members/{member}/trust.
pub(super) async fn trust(call: &Call<'_>, name: &str) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_TRUST, None)?;
    call.request.query().only(&[])?;
    let reason = reason(&body(call, &["reason"])?)?;
    let (_, member) = members::find(call.app, name).await?;
    let by = person(call);
    let was_distrusted = match call.app.store().trust(&member, &by, &reason, &call.app.stamp()).await {
        Ok(was) => was,
        Err(ConfirmError::Refused(why)) => {
            return Err(ApiError::conflict(format!(
                "{}: Member {member} stays distrusted: its BMC said Off when it was last read, while the cluster saw the \
                 member Online. Correct cables, address or UUID, wait until the worker has read the BMC again (at most 15 \
                 minutes), and repeat this",
                why.as_str()
            )));
        }
        Err(other) => return Err(failed(&other, &member)),
    };
    info!(member = ?member.as_str(), user = ?by.user, was_distrusted, "a person trusts the mapping of a member");
    super::json(&Trusted { member: member.to_string(), was_distrusted })
}

/// Who says so. A member is nobody's node, so there is system authority or none.
fn person(call: &Call<'_>) -> Authority {
    authorise::authority(call.cx.caller, &NodeFacts::default())
}

/// The members of the body, which must be an object of these and come from a program.
fn body(call: &Call<'_>, known: &[&str]) -> Result<Map<String, Value>, ApiError> {
    // With noauth whoever reaches the address is believed, and a browser on this host reaches it for whatever page it
    // shows. It says so; no other client does.
    if matches!(call.cx.caller.kind, CallerKind::NoAuth) && call.request.headers.contains_key(ORIGIN) {
        return Err(ApiError::forbidden(
            "A person's word is not taken from a page in a browser (header Origin) while auth_strategy is noauth: use \
             `apelora member confirm-off` or `apelora bmc trust`",
        ));
    }
    let members = call.request.strict_object()?;
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(ApiError::bad_request(format!(
            "Unexpected field in the body: {unknown}; it has {}",
            known.join(", ")
        ))),
        None => Ok(members),
    }
}

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Result<&'a str, ApiError> {
    match body.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ApiError::bad_request(format!("Expected a string for {name}"))),
        None => Err(ApiError::bad_request(format!("Missing mandatory parameter: {name}"))),
    }
}

/// The incarnation that was shown to the person.
fn incarnation(body: &Map<String, Value>) -> Result<Incarnation, ApiError> {
    let value = body
        .get("incarnation")
        .ok_or_else(|| ApiError::bad_request("Missing mandatory parameter: incarnation"))?;
    // More than any database counts to was never shown.
    let shown = value.as_u64().filter(|number| i64::try_from(*number).is_ok());
    shown.map(Incarnation).ok_or_else(|| {
        ApiError::bad_request(
            "Expected a whole number for incarnation: the one that was shown with the member",
        )
    })
}

/// Why; a text of people.
fn reason(body: &Map<String, Value>) -> Result<String, ApiError> {
    let text = text(body, "reason")?.trim();
    // Characters without a shape tell nobody anything.
    if !text.chars().any(char::is_alphanumeric) {
        return Err(ApiError::bad_request("reason: say how you know; it stands in the audit trail"));
    }
    if text.chars().count() > REASON_MAX {
        return Err(ApiError::bad_request(format!("reason: at most {REASON_MAX} characters are stored")));
    }
    if text.contains('\0') {
        return Err(ApiError::bad_request("The reason must not contain the character U+0000. Remove it"));
    }
    Ok(text.to_owned())
}

/// 409 for a word that does not apply; its reason code stands first, for programs.
fn refused(member: &MemberName, shown: Incarnation, why: ReasonCode) -> ApiError {
    let sentence = match why {
        ReasonCode::BackOnline => format!(
            "Member {member} was seen Online again since incarnation {} was shown to you. Look at it again",
            shown.0
        ),
        other => format!("Member {member} is not confirmed off: {} {}", other.sentence(), other.remedy()),
    };
    ApiError::conflict(format!("{}: {sentence}", why.as_str()))
}

fn failed(failure: &ConfirmError, member: &MemberName) -> ApiError {
    match failure {
        ConfirmError::Unavailable(cause) => {
            error!(?cause, "the database is not available");
            ApiError::unavailable(failure.to_string(), RETRY_AFTER)
        }
        ConfirmError::Unknown(cause) => {
            error!(?cause, member = ?member.as_str(), "the database did not confirm a person's word");
            ApiError::resource(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "The database did not confirm the change. It was made whole or not at all: look at member {member} \
                     before you retry"
                ),
            )
        }
        ConfirmError::Failed(cause) => {
            error!(?cause, "the database could not make a change");
            ApiError::internal()
        }
        ConfirmError::Refused(_) => ApiError::internal(),
    }
}
