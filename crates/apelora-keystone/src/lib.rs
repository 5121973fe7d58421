//! Who a Keystone token belongs to.
//!
//! [`Validator::validate`] turns the token of a request into an [`Identity`] (Identity API v3), or into a [`Refusal`] that
//! says whose fault it is: the token's (401), Keystone's (503), or that of this service's own account (503, and an alarm).
//!
//! * **A decision in time.** Every question has an absolute deadline over connecting, logging in, waiting and retrying.
//!   Without a decision the answer is "unavailable": never an older success, never a refusal of the token.
//! * **One request per token.** Whoever asks for the same token at the same time waits for the same answer. Answers are
//!   remembered by the token's digest, for a bounded time, up to the token's expiry, and in bounded numbers.
//! * **Only the user's token gives scope and roles.** A service token adds who the service is, lets a user's token have
//!   expired, and nothing else.
//! * **Access rules are enforced**, on remembered answers too, since Keystone is told that they are.
//! * **Nothing is printed**: not a token, not a password, not a word of an answer, which may repeat the token.

mod access_rule;
mod api;
mod config;
mod identity;
mod journal;
mod location;
mod memory;
mod own_token;
mod pool;
mod refusal;
mod token;
mod validator;

pub use access_rule::AccessRule;
pub use apelora_http::Trust;
pub use config::{Config, ConfigError, Credentials, Limits};
pub use identity::{Identity, ServiceIdentity};
pub use refusal::{Invalid, OwnTrouble, Refusal, Trouble};
pub use token::{LONGEST_TOKEN, Token};
pub use validator::{Question, Validator};
