//! The real environment, clock, id source and host name. Everything else takes them as parameters.

use std::ffi::OsString;
use std::time::Duration;

use apelora_fencing::{BootTime, Clock};
use apelora_maintenance::Stamp;
use rustix::time::{ClockId, clock_gettime};
use time::{OffsetDateTime, PrimitiveDateTime};
use uuid::Uuid;

use crate::config::BMC_SECRET_PREFIX;

/// The environment of this process. BMC secrets have their names only: their values are read at the moment of use.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
    let variables = std::env::vars_os();
    variables
        .map(|(name, value)| match name.to_string_lossy().starts_with(BMC_SECRET_PREFIX) {
            true => (name, OsString::new()),
            false => (name, value),
        })
        .collect()
}

/// The value of a BMC secret, at the moment of use.
pub(crate) fn bmc_secret(name: &str) -> Option<OsString> {
    if !name.starts_with(BMC_SECRET_PREFIX) {
        return None;
    }
    #[expect(clippy::disallowed_methods, reason = "the one place where a BMC secret is read")]
    std::env::var_os(name)
}

/// The time now, in UTC.
pub(crate) fn now() -> PrimitiveDateTime {
    #[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
    let now = OffsetDateTime::now_utc();
    PrimitiveDateTime::new(now.date(), now.time())
}

/// The time now, as Unix time.
pub(crate) fn since_1970() -> Duration {
    (now().assume_utc() - OffsetDateTime::UNIX_EPOCH).try_into().unwrap_or_default()
}

/// The boot-time clock of this machine, which goes on counting while the machine is suspended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BootClock;

impl Clock for BootClock {
    fn boot(&self) -> BootTime {
        #[expect(clippy::disallowed_methods, reason = "the one place where the boot clock is read")]
        let now = clock_gettime(ClockId::Boottime);
        // Neither is ever negative (clock_gettime(2)).
        let secs = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        BootTime::new(Duration::new(secs, nanos))
    }
}

/// A new random id.
pub(crate) fn new_id() -> Uuid {
    #[expect(clippy::disallowed_methods, reason = "the one place where ids are made")]
    Uuid::new_v4()
}

/// Time and ids of one change made by the service of this name.
pub(crate) fn stamp(host: &str) -> Stamp {
    Stamp::new(new_id(), new_id(), now(), host.to_owned())
}

/// The name of this host, for services without a name of their own.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
