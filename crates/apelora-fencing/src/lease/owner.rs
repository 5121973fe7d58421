//! Whose lease it is, as far as its owner's name tells. Host ids are configured in two places, at each server and in
//! `APELORA_SANLOCK_HOSTS`; two of them swapped would prove the wrong server dead.

use uuid::Uuid;

use super::LeaseConfig;
use crate::name::MemberName;

/// The bytes that a lease has for a name.
const NAME_BYTES: usize = 48;
/// The bytes of a UUID as text.
const UUID_BYTES: usize = 36;

impl LeaseConfig {
    /// The host or member that a lease's owner name speaks of, if that is not `member`. `None` when the name fits or says
    /// nothing about the host.
    ///
    /// Unless it is configured, a daemon calls itself `UUID.HOST`, cut to 48 bytes (tests/data/fencing/sanlock.md
    /// section 6).
    pub fn other_owner<'a>(&self, member: &MemberName, owner_name: &'a str) -> Option<&'a str> {
        let host = owner_name.get(UUID_BYTES..).and_then(|tail| tail.strip_prefix('.'));
        let by_default = owner_name.get(..UUID_BYTES).is_some_and(|id| Uuid::try_parse(id).is_ok());
        match host {
            Some(host) if by_default => {
                (!is_host(member.as_str(), host, owner_name.len() >= NAME_BYTES)).then_some(host)
            }
            _ => (owner_name != member.as_str() && self.members.contains_key(&MemberName::from(owner_name)))
                .then_some(owner_name),
        }
    }
}

/// Whether `host`, of which the end may be cut off, can be the member's host name. Domains are not compared: either may
/// lack one.
fn is_host(member: &str, host: &str, cut: bool) -> bool {
    let label = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let (ours, theirs) = (label(member), label(host));
    if cut && !host.contains('.') {
        return !theirs.is_empty() && ours.starts_with(&theirs);
    }
    ours == theirs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::LeaseHost;

    const ID: &str = "0b3c6a52-7f0e-4b0e-9e0a-3f8f7d1c2a11";

    fn other(member: &str, owner: &str) -> Option<String> {
        let host = LeaseHost { host_ids: [("vg".into(), 1)].into(), watchdog: true };
        let members = ["s1", "s2"].map(|m| (m.into(), host.clone())).into();
        let config = LeaseConfig { lockspaces: vec!["vg".into()], members };
        config.other_owner(&member.into(), owner).map(str::to_owned)
    }

    #[test]
    fn names_of_the_usual_form_are_compared() {
        for (member, host) in [
            ("s1", "s1"),
            ("S1", "s1"),
            ("s1", "s1.example"),
            ("s1.example.org", "s1"),
            ("s1.example.org", "s1.other"),
            ("server-number-one", "server-numb"),
            ("abcdefghijk", "abcdefghijk"),
        ] {
            assert_eq!(other(member, &format!("{ID}.{host}")), None, "{member} {host}");
        }
        for (member, host) in [
            ("s1", "s2"),
            ("s1", "s10"),
            ("s10", "s1"),
            ("s1", "s2.example"),
            ("server-numb2", "server-numb1"),
            ("s1", ""),
        ] {
            assert_eq!(other(member, &format!("{ID}.{host}")).as_deref(), Some(host), "{member} {host}");
        }
        // Cut to 48 bytes: 11 of the host's name are left.
        assert_eq!(other("server-one", &format!("{ID}.server-one.")), None);
        assert_eq!(other("server-numbe", &format!("{ID}.server-numb")), None);
        assert_eq!(other("server-num", &format!("{ID}.server-numb")).as_deref(), Some("server-numb"));
    }

    #[test]
    fn configured_names_may_be_anything_but_another_member() {
        assert_eq!(other("s1", "s1"), None);
        assert_eq!(other("s1", "rack 3, unit 7"), None);
        assert_eq!(other("s1", "s2").as_deref(), Some("s2"));
        assert_eq!(other("s1", ""), None);
    }
}
