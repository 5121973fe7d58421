//! Every reason for which something was or was not done, in one table: its word, a sentence, and what to do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

macro_rules! reasons {
    ($($name:ident, $word:literal, $kind:ident, $sentence:literal, $remedy:literal;)+) => {
        /// Why a member was or was not switched off. The word ([`ReasonCode::as_str`]) is stable: it is stored, audited
        /// and counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReasonCode {
            $(#[doc = $sentence] $name,)+
        }

        impl ReasonCode {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The stable word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What it means, as one sentence for a person.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)+ }
            }

            /// What a person can do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$name => $remedy,)+ }
            }

            /// Where in the course of a power-off it can arise.
            pub const fn kind(self) -> ReasonKind {
                match self { $(Self::$name => ReasonKind::$kind,)+ }
            }
        }
    };
}

/// Where a reason arises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasonKind {
    /// A guard refuses before anything is written.
    Guard,
    /// The protocol ends a record, or refuses one.
    Protocol,
    /// The BMC's answer, or the missing of one.
    Bmc,
    /// The power-off is proven.
    Success,
}

reasons! {
    BadConfiguration, "bad_configuration", Guard,
        "The configured grace is below its minimum.",
        "Set APELORA_BMC_FENCE_AFTER_SECS to 20 or more and restart the worker.";
    ViewUnreadable, "view_unreadable", Guard,
        "The cluster's member list could not be read or contradicts itself.",
        "Check APELORA_INCUS_URL and that the cluster's API answers; nothing is decided until it does.";
    NotAMember, "not_a_member", Guard,
        "The cluster does not list this member.",
        "If the server was removed from the cluster, remove it from the BMC map too.";
    NotOffline, "not_offline", Guard,
        "The cluster does not report this member as Offline.",
        "Nothing to do. An evacuated member is never reported Offline: if it is dead, confirm it by hand.";
    OfflineTooShort, "offline_too_short", Guard,
        "The member has not been Offline for long enough without interruption.",
        "Wait: the grace runs from this leader's first look and starts again after any other answer.";
    NotMinority, "not_minority", Guard,
        "Half or more of the members are Offline, which points at this side's own isolation.",
        "Look at the network and the power first. Members whose BMC reads Off are proven off all the same; others need a person's confirmation.";
    AnotherInProgress, "another_in_progress", Guard,
        "Another member is being powered off.",
        "Wait for its outcome; one at a time.";
    AlreadyInProgress, "already_in_progress", Guard,
        "This member is being powered off already.",
        "Wait for the outcome of the open record.";
    PoweredOffRecently, "powered_off_recently", Guard,
        "A power-off was or may have been sent in the last ten minutes and the member has not been seen Online since.",
        "Find out why it did not come back or did not go off; confirm it by hand if it is off.";
    HistoryLost, "history_lost", Guard,
        "The database was restored in the last ten minutes, so an earlier power-off may be missing from it.",
        "Wait for ten minutes after the restore, or confirm the member by hand.";
    NotLeader, "not_leader", Guard,
        "This worker does not hold the leader lease.",
        "Nothing to do: the worker that leads decides.";
    LeaseTooShort, "lease_too_short", Guard,
        "The leader lease does not last long enough to cover a power-off.",
        "If it persists, the database answers too slowly for the lease to be renewed in time.";
    NotMapped, "not_mapped", Guard,
        "The BMC map does not name this member.",
        "Add the member to the file named by APELORA_BMC_MAP, or confirm it by hand.";
    MappingInvalid, "mapping_invalid", Guard,
        "The BMC map is invalid as a whole, so nothing is switched off.",
        "Correct the entry that the worker's log names; `apelora bmc check` repeats it.";
    LabNotAllowed, "lab_not_allowed", Guard,
        "The member uses the lab provider, which is not enabled.",
        "Set APELORA_BMC_ALLOW_LAB=1 in a lab; never in production.";
    Distrusted, "distrusted", Guard,
        "This member's mapping is distrusted: its BMC said Off while the cluster saw the member Online.",
        "Check cables, address and UUID, then `apelora bmc trust MEMBER --reason TEXT`.";
    OwnHost, "own_host", Guard,
        "The member is the host that this worker runs on.",
        "Run a second worker on another host; it will lead and decide.";
    PersonConfirmed, "person_confirmed", Guard,
        "A person has confirmed that this member is off.",
        "Nothing to do: recovery may start.";
    AlreadyFenced, "already_fenced", Guard,
        "The member is already proven off for this failure.",
        "Nothing to do: recovery may start.";
    Held, "held", Guard,
        "A maintenance entry of a type that locks power stands on this member's node.",
        "Release the entry if the server may be switched off.";
    NeverOnline, "never_online", Guard,
        "This installation has never seen the member Online.",
        "If it is off, confirm it by hand.";
    ViewDisagrees, "view_disagrees", Guard,
        "The cluster view is not confirmed: a second member disagrees or is missing, or the answering member is not Online itself.",
        "Name several endpoints in APELORA_INCUS_URL, or attest one with APELORA_INCUS_SINGLE_VIEW=1.";
    FailureDomain, "failure_domain", Guard,
        "All members of this member's failure domain are Offline.",
        "Look at the domain's power and network first; confirm members that are off by hand.";
    IncusHealingOn, "incus_healing_on", Guard,
        "The cluster's own healing is switched on or cannot be read; it restarts instances without a proof.",
        "Run `incus config set cluster.healing_threshold=0`, or attest it with APELORA_INCUS_HEALING_OFF=1.";

    BackOnline, "back_online", Protocol,
        "The member was seen Online again.",
        "Nothing to do. If it flaps, look at its network.";
    MappingChanged, "mapping_changed", Protocol,
        "The BMC map changed while this power-off was being prepared.",
        "Nothing to do: it is decided again with the new map.";
    LeaderChanged, "leader_changed", Protocol,
        "The leader that started this power-off is gone, and the member did not read Off.",
        "See whether the member is off; confirm it by hand if so.";
    LeaseLost, "lease_lost", Protocol,
        "The leader lease ended before the power-off could be finished.",
        "Nothing to do: the next leader takes the record over.";
    PermitExpired, "permit_expired", Protocol,
        "The power-off was not sent because its permit ended first.",
        "Nothing to do. If it repeats, the BMC or the database answers too slowly.";
    CommitUnknown, "commit_unknown", Protocol,
        "The database did not answer a commit, so nothing was sent.",
        "Nothing to do: it is decided again.";
    StoreUnreadable, "store_unreadable", Protocol,
        "The database could not be read.",
        "Check the database; nothing is decided until it answers.";
    SeenOnline, "seen_online", Protocol,
        "The member was Online when a worker last saw the member list, so it cannot be confirmed off.",
        "Nothing to do if it runs. If it does not, wait until the cluster reports it Offline; as long as the list cannot be read, nothing could be restarted anyway.";
    DryRun, "dry_run", Protocol,
        "The worker runs with --dry-run: it stopped before the permit.",
        "Start the worker without --dry-run to let it act.";

    BmcUnreachable, "bmc_unreachable", Bmc,
        "The BMC could not be reached; that says nothing about the member.",
        "Check the management network. A BMC often dies with its server's power: confirm by hand, or wait for the storage lease.";
    SecretMissing, "secret_missing", Bmc,
        "The environment of the worker does not hold the BMC's secret.",
        "Set the variable that the BMC map names and restart the worker.";
    Credential, "http_auth", Bmc,
        "The BMC rejected the user, the password or the role.",
        "Check the account on the BMC: it must be enabled and may need the operator role.";
    IpmiAuth, "ipmi_auth", Bmc,
        "The IPMI session could not be authenticated.",
        "Check user, password and key; nothing more was sent to the BMC.";
    IpmiPrivilege, "ipmi_privilege", Bmc,
        "The BMC does not grant the operator level to this user.",
        "Give the BMC user the operator level on the LAN channel.";
    CipherSuite, "cipher_suite", Bmc,
        "The BMC offers neither cipher suite 17 nor 3, or not the one that is pinned.",
        "Update the BMC's firmware or use Redfish.";
    Protocol, "bmc_protocol", Bmc,
        "The BMC's answer breaks the protocol.",
        "Update the BMC's firmware; `apelora bmc check` shows the answer's form.";
    UuidMissing, "uuid_missing", Bmc,
        "The BMC reports no system UUID.",
        "Such a member cannot be fenced through this provider; try the other one.";
    UuidInvalid, "uuid_invalid", Bmc,
        "The BMC reports a system UUID that is malformed or a placeholder.",
        "Have the vendor's tool write the board's UUID.";
    UuidMismatch, "uuid_mismatch", Bmc,
        "The BMC belongs to another server: its system UUID is not the mapped one.",
        "Correct address or UUID in the BMC map; `apelora bmc check` prints what the BMC reports.";
    UuidAmbiguous, "uuid_ambiguous", Bmc,
        "Several systems behind this BMC report the mapped UUID.",
        "Name the system's path in the BMC map.";
    UuidChanged, "uuid_changed", Bmc,
        "The system UUID changed between two readings; the request may have reached another server.",
        "Look at both servers at once, then correct the BMC map.";
    NoSystem, "no_system", Bmc,
        "The BMC lists no system.",
        "Restart the BMC or name the system's path in the BMC map.";
    TooManySystems, "too_many_systems", Bmc,
        "The BMC lists more systems than are searched.",
        "Name the system's path in the BMC map.";
    SystemPathMismatch, "system_path_mismatch", Bmc,
        "The BMC answered with another system than the one asked for.",
        "Correct the system's path in the BMC map.";
    PowerStateUnknown, "power_state_unknown", Bmc,
        "The BMC reports a power state that is neither On nor Off.",
        "Restart the BMC; if it stays so, confirm the member by hand.";
    PowerFault, "power_fault", Bmc,
        "The BMC reports that it tried to switch the power and failed.",
        "Look at the server: its Off is not a proof.";
    ResetNotOffered, "reset_not_offered", Bmc,
        "The BMC does not offer a forced power-off for this system.",
        "Update the BMC's firmware or use the other provider.";
    TargetForeign, "target_foreign", Bmc,
        "The BMC names a reset target or a member outside the mapped system.",
        "Name the system's path in the BMC map; report it to the vendor.";
    HttpStatus, "http_status", Bmc,
        "The BMC answered a reading with an error.",
        "`apelora bmc check` shows the status; Redfish may be disabled on the BMC.";
    Redirect, "redirect", Bmc,
        "The BMC redirected the request elsewhere, which is never followed.",
        "Map the address and the path that really answer.";
    BodyTooLarge, "body_too_large", Bmc,
        "The BMC's answer is larger than is read.",
        "Update the BMC's firmware.";
    BadJson, "bad_json", Bmc,
        "The BMC's answer is not the JSON that is expected.",
        "Update the BMC's firmware; check that the address is a BMC.";
    Deadline, "deadline", Bmc,
        "The BMC did not finish its answer in time.",
        "Check the management network and the load of the BMC.";
    TlsExpired, "tls_expired", Bmc,
        "The BMC's certificate has expired.",
        "Renew the certificate on the BMC; check the worker's clock.";
    TlsNotYetValid, "tls_not_yet_valid", Bmc,
        "The BMC's certificate is not valid yet.",
        "Check the worker's clock.";
    TlsName, "tls_name", Bmc,
        "The BMC's certificate does not name the mapped address.",
        "Issue a certificate with the address as subject alternative name.";
    TlsIssuer, "tls_issuer", Bmc,
        "The BMC's certificate is not signed by a trusted authority.",
        "Install a certificate of your own authority, or name the right ca_file.";
    Tls, "tls_failed", Bmc,
        "The TLS handshake with the BMC failed.",
        "Update the BMC's firmware to TLS 1.2 or later, or use IPMI.";
    LabCommand, "lab_command", Bmc,
        "The lab's command failed.",
        "Run `limactl list` on the worker's host.";
    ResetRejected, "reset_rejected", Bmc,
        "The BMC rejected the power-off, and the member did not read Off.",
        "Look at the server; confirm it by hand if it is off.";
    NeverOff, "never_off", Bmc,
        "The power-off was sent, but the member never read Off.",
        "Look at the server; confirm it by hand if it is off.";
    CameBackOn, "came_back_on", Bmc,
        "The member read Off and then On again.",
        "Something switches it on: a person, a restore policy, another controller. Look before trying again.";
    ReadbackTimeout, "readback_timeout", Bmc,
        "The BMC could not be read any more after the power-off was sent.",
        "See whether the member is off; confirm it by hand if so.";

    PoweredOff, "powered_off", Success,
        "The member was switched off and reads Off.",
        "Nothing to do: recovery may start.";
    AlreadyOff, "already_off", Success,
        "The member was off already; nothing was sent.",
        "Nothing to do: recovery may start.";
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no reason code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no reason code")]
pub struct UnknownReason(pub String);

impl FromStr for ReasonCode {
    type Err = UnknownReason;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|r| r.as_str() == s).ok_or_else(|| UnknownReason(s.into()))
    }
}

impl Serialize for ReasonCode {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ReasonCode {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'de, str>::deserialize(d)?;
        word.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_distinct_snake_case_and_parse_back() {
        let words: BTreeSet<_> = ReasonCode::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(words.len(), ReasonCode::ALL.len());
        for reason in ReasonCode::ALL {
            assert!(reason.as_str().chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{reason}");
            assert_eq!(reason.as_str().parse(), Ok(*reason));
            assert!(reason.sentence().ends_with('.') && reason.remedy().ends_with('.'), "{reason}");
        }
        assert!("no_such_reason".parse::<ReasonCode>().is_err());
    }
}
