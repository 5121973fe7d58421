//! The requests that exist.

use apelora_http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use apelora_http::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{NameProblem, Problem};
use crate::operation::OperationId;

const MIB: usize = 1 << 20;

/// The largest answer of all, in bytes: a list of instances.
pub(crate) const LARGEST: usize = 64 * MIB;

/// No name that Incus allows is longer than this, in bytes.
const NAME_LIMIT: usize = 255;

/// Everything but the unreserved characters of RFC 3986 section 2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request. There are no others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask<'a> {
    Server,
    Members,
    MemberState { member: &'a str },
    Instances { full: bool },
    Instance { project: &'a str, name: &'a str },
    Pools,
    Move { project: &'a str, name: &'a str, target: &'a str },
    Start { project: &'a str, name: &'a str },
    Operation(&'a OperationId),
    Wait { operation: &'a OperationId, seconds: u64 },
}

impl Ask<'_> {
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Move { .. } => Method::Post,
            Self::Start { .. } => Method::Put,
            _ => Method::Get,
        }
    }

    /// Whether sending it a second time changes nothing.
    pub(crate) fn is_read(self) -> bool {
        self.method() == Method::Get
    }

    /// Whether the answer's HTTP status was sent before anything was known (section 1).
    pub(crate) fn status_says_nothing(self) -> bool {
        matches!(self, Self::Wait { .. })
    }

    /// Largest answer, in bytes.
    fn limit(self) -> usize {
        match self {
            Self::Instances { .. } => LARGEST,
            Self::Members | Self::Pools => 8 * MIB,
            _ => MIB,
        }
    }

    /// Method and path, for people. Names are encoded as they are sent.
    pub(crate) fn shown(self) -> String {
        let method = match self.method() {
            Method::Post => "POST",
            Method::Put => "PUT",
            _ => "GET",
        };
        format!("{method} {}", self.raw_path())
    }

    /// The request, if the names in it can only mean what they shall mean.
    pub(crate) fn request(self) -> Result<Request, Problem> {
        for (what, name) in self.names().into_iter().flatten() {
            if let Some(why) = problem_of(what, name) {
                return Err(Problem::Name { what, name: name.chars().take(80).collect(), why });
            }
        }
        let request = Request::new(self.method(), &self.raw_path())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .answer_at_most(self.limit());
        let body = match self {
            Self::Move { .. } => r#"{"migration":true}"#,
            Self::Start { .. } => r#"{"action":"start","timeout":-1}"#,
            _ => return Ok(request),
        };
        Ok(request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body))
    }

    fn names(&self) -> [Option<(&'static str, &str)>; 3] {
        match *self {
            Self::MemberState { member } => [Some(("member", member)), None, None],
            Self::Instance { project, name } | Self::Start { project, name } => {
                [Some(("project", project)), Some(("instance", name)), None]
            }
            Self::Move { project, name, target } => {
                [Some(("project", project)), Some(("instance", name)), Some((TARGET, target))]
            }
            _ => [None; 3],
        }
    }

    fn raw_path(self) -> String {
        let encode = |name| utf8_percent_encode(name, ENCODED);
        match self {
            Self::Server => "/1.0".to_owned(),
            Self::Members => "/1.0/cluster/members?recursion=1".to_owned(),
            Self::MemberState { member } => format!("/1.0/cluster/members/{}/state", encode(member)),
            Self::Instances { full: false } => "/1.0/instances?recursion=1&all-projects=true".to_owned(),
            Self::Instances { full: true } => "/1.0/instances?recursion=2&all-projects=true".to_owned(),
            Self::Instance { project, name } => {
                format!("/1.0/instances/{}?project={}", encode(name), encode(project))
            }
            Self::Pools => "/1.0/storage-pools?recursion=1".to_owned(),
            Self::Move { project, name, target } => {
                let (name, project, target) = (encode(name), encode(project), encode(target));
                format!("/1.0/instances/{name}?project={project}&target={target}")
            }
            Self::Start { project, name } => {
                format!("/1.0/instances/{}/state?project={}", encode(name), encode(project))
            }
            Self::Operation(operation) => operation.as_str().to_owned(),
            Self::Wait { operation, seconds } => format!("{operation}/wait?timeout={seconds}"),
        }
    }
}

const TARGET: &str = "target member";

fn problem_of(what: &str, name: &str) -> Option<NameProblem> {
    match name {
        "" => Some(NameProblem::Empty),
        "." | ".." => Some(NameProblem::Dots),
        _ if name.len() > NAME_LIMIT => Some(NameProblem::Long),
        _ if what == TARGET && name.starts_with('@') => Some(NameProblem::Group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        let strange = Ask::Move { project: "a&b=c", name: "s/1?x#é", target: "m 1%" };
        assert_eq!(
            strange.shown(),
            "POST /1.0/instances/s%2F1%3Fx%23%C3%A9?project=a%26b%3Dc&target=m%201%25"
        );
        assert!(strange.request().is_ok());
        let plain = Ask::Start { project: "default", name: "web-1.a_b~c" };
        assert_eq!(plain.shown(), "PUT /1.0/instances/web-1.a_b~c/state?project=default");
    }

    #[test]
    fn names_that_mean_something_else_are_not_sent() {
        let long = "x".repeat(NAME_LIMIT + 1);
        for (ask, why) in [
            (Ask::Instance { project: "default", name: "" }, NameProblem::Empty),
            (Ask::Instance { project: "", name: "s1" }, NameProblem::Empty),
            (Ask::Instance { project: "default", name: ".." }, NameProblem::Dots),
            (Ask::Start { project: "default", name: "." }, NameProblem::Dots),
            (Ask::MemberState { member: &long }, NameProblem::Long),
            (Ask::Move { project: "default", name: "s1", target: "" }, NameProblem::Empty),
            (Ask::Move { project: "default", name: "s1", target: "@all" }, NameProblem::Group),
        ] {
            match ask.request() {
                Err(Problem::Name { why: told, .. }) => assert_eq!(told, why, "{ask:?}"),
                other => panic!("{ask:?}: {other:?}"),
            }
        }
        assert!(Ask::Instance { project: "default", name: "@s1" }.request().is_ok());
    }
}
