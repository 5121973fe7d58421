//! Who may do what, without I/O.
//!
//! Rules are written in the rule language of oslo.policy, so that the policy files of an existing Bare Metal deployment
//! keep their meaning. [`Rules::compile`] puts the built-in rules and the files together, once per change of the files;
//! [`Rules::enforce`] judges one rule for a caller ([`Creds`]) and an object ([`Target`]). [`authority()`] is the floor
//! below all of that: what a caller is on a node, computed here and never read from a file.
//!
//! The language, and where it is stricter than the original: `docs/policy.md`.

mod authority;
mod check;
mod creds;
pub mod defaults;
mod error;
mod eval;
mod explain;
mod file;
mod format;
mod judge;
mod kind;
mod links;
mod literal;
mod parse;
mod rules;
mod sample;
mod target;
mod text;
mod yaml;

pub use authority::{AuthoritySettings, Standing, authority};
pub use creds::{Creds, Identity, TokenScope};
pub use error::{Place, PolicyError, Problem, Warning};
pub use eval::{EvalSummary, eval};
pub use explain::{Explanation, Step};
pub use file::Source;
pub use judge::{Because, Decision, NotRegistered, Reason, Undecidable};
pub use rules::{Deprecated, Origin, Registered, Rules, ScopeTypes, Settings};
pub use sample::sample;
pub use target::{EntryTarget, Target};

/// Values in the notation of Python, which the rule language and the reference service's messages share.
pub mod python {
    pub use crate::text::{quoted as repr, quoted_text as repr_text};
}
