//! The cluster's members and their fencing, and a person's words about them. Source: the document at `/openapi.json`.
//!
//! What is read comes with the JSON as the server sent it, so that a program sees what this client does not know yet.

use apelora_http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::client::{Call, Query, decode, segment};
use crate::member::{
    ConfirmedOff, Explanation, FenceRecord, MemberDetail, Members, Settings, Shown, Trusted,
};
use crate::{Client, ClientError, Refusal};

const MEMBERS: &str = "/apelora/v1/members";
const RECORDS: &str = "/apelora/v1/fence/records";

impl Client {
    /// The members of the cluster.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Lacks`] when the server has no such list.
    pub async fn members(&self) -> Result<Shown<Members>, ClientError> {
        self.shown(MEMBERS.to_owned()).await.map_err(|why| lacks(why, "a list of the cluster's members"))
    }

    /// One member, whole.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn member(&self, name: &str) -> Result<Shown<MemberDetail>, ClientError> {
        self.shown(member_path(name)?).await
    }

    /// The world as it was last judged, and the verdict on the member.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn explain(&self, member: &str) -> Result<Shown<Explanation>, ClientError> {
        self.shown(format!("{}/explain", member_path(member)?)).await
    }

    /// Gives the caller's word that the member is off, in the life that was shown. Nothing asks a second time.
    ///
    /// # Errors
    /// [`ClientError`]; 409 when the word does not apply.
    pub async fn confirm_off(
        &self,
        member: &str,
        incarnation: u64,
        reason: &str,
    ) -> Result<Shown<ConfirmedOff>, ClientError> {
        let body = json!({"member": member, "incarnation": incarnation, "reason": reason});
        let path = format!("{}/confirm-off", member_path(member)?);
        self.said(Call::new(Method::Post, path).json(&body)?).await
    }

    /// Trusts the member's entry of the BMC map again.
    ///
    /// # Errors
    /// [`ClientError`]; 409 while the BMC contradicts the cluster.
    pub async fn trust(&self, member: &str, reason: &str) -> Result<Shown<Trusted>, ClientError> {
        let path = format!("{}/trust", member_path(member)?);
        self.said(Call::new(Method::Post, path).json(&json!({"reason": reason}))?).await
    }

    /// One fence record with its evidence.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn fence_record(&self, id: &str) -> Result<Shown<FenceRecord>, ClientError> {
        self.shown(format!("{RECORDS}/{}", segment("the record", id)?)).await
    }

    /// The latest fence records, of one member or of all, newest first; at most 1000.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn fence_records(&self, member: Option<&str>) -> Result<Vec<FenceRecord>, ClientError> {
        #[derive(Deserialize)]
        struct Body {
            records: Vec<FenceRecord>,
        }
        let mut query = Query::default();
        if let Some(member) = member {
            query.push("member", member);
        }
        let call = Call::new(Method::Get, format!("{RECORDS}{}", query.text()));
        Ok(decode::<Body>(&self.call(&call).await?)?.records)
    }

    /// The settings in force.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Lacks`] when the server does not show them.
    pub async fn settings(&self) -> Result<Shown<Settings>, ClientError> {
        let path = "/apelora/v1/settings".to_owned();
        self.shown(path).await.map_err(|why| lacks(why, "an account of its settings"))
    }

    async fn shown<T: DeserializeOwned>(&self, path: String) -> Result<Shown<T>, ClientError> {
        self.said(Call::new(Method::Get, path)).await
    }

    async fn said<T: DeserializeOwned>(&self, call: Call) -> Result<Shown<T>, ClientError> {
        let answer = self.call(&call).await?;
        Ok(Shown { known: decode(&answer)?, json: decode(&answer)? })
    }
}

fn member_path(name: &str) -> Result<String, ClientError> {
    Ok(format!("{MEMBERS}/{}", segment("the member", name)?))
}

/// A server that knows no such address.
pub(crate) fn lacks(why: ClientError, what: &'static str) -> ClientError {
    match why {
        ClientError::Refused(Refusal { status: 404, .. }) => ClientError::Lacks { what },
        other => other,
    }
}
