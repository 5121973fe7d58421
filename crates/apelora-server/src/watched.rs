//! Files that are read again when they change.
//!
//! They are looked at every few seconds: notifications of the system are easily lost where secrets are mounted by
//! swapping links.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::{error, info, warn};

use crate::api::Api;
use crate::policy::Look;
use crate::tls::Tls;

/// Looks after the files of a server for as long as it is polled.
pub(crate) async fn watch(api: Arc<Api>, tls: Option<Arc<Tls>>, interval: Duration) {
    let users = api.authenticator.watched().map(|path| vec![path.to_owned()]).unwrap_or_default();
    let certificate: Vec<_> =
        tls.as_ref().map(|tls| tls.watched().map(Path::to_owned).to_vec()).unwrap_or_default();
    if users.is_empty() && certificate.is_empty() {
        return std::future::pending().await;
    }
    let (mut users_seen, mut certificate_seen) = (look(&users).await, look(&certificate).await);
    loop {
        tokio::time::sleep(interval).await;
        let now = look(&users).await;
        if now != users_seen {
            users_seen = now;
            report("http_basic_user_file", api.authenticator.reload());
        }
        let now = look(&certificate).await;
        if now != certificate_seen
            && let Some(tls) = &tls
        {
            certificate_seen = now;
            report("tls_cert", tls.reload());
        }
    }
}

/// Looks after the policy of a server for as long as it is polled.
pub(crate) async fn watch_policy(api: Arc<Api>, interval: Duration) {
    if !api.policy.has_files() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(interval).await;
        let looking = Arc::clone(&api);
        // Files are read, and rules put together, apart from the threads that serve.
        let looked = tokio::task::spawn_blocking(move || looking.policy.look_again()).await;
        match looked {
            Ok(Look::Unchanged) => {}
            Ok(Look::Swapped(warnings)) => {
                api.metrics.policy_looked(true);
                info!(setting = "policy_file", "read again");
                for warning in warnings {
                    warn!(setting = "policy_file", warning);
                }
            }
            Ok(Look::Refused(error)) => {
                api.metrics.policy_looked(false);
                error!(setting = "policy_file", error, "cannot be used, the rules of before stay in force");
            }
            Err(failure) => error!(%failure, "the policy could not be looked at"),
        }
    }
}

fn report(setting: &'static str, outcome: Result<(), String>) {
    match outcome {
        Ok(()) => info!(setting, "read again"),
        Err(error) => warn!(setting, error, "cannot be read again, what was read before stays in use"),
    }
}

/// What tells one state of a file from another.
type Seen = Vec<Option<(SystemTime, u64)>>;

async fn look(paths: &[PathBuf]) -> Seen {
    let mut seen = Vec::with_capacity(paths.len());
    for path in paths {
        let path = path.clone();
        let metadata = tokio::task::spawn_blocking(move || std::fs::metadata(path)).await;
        let known = metadata.ok().and_then(Result::ok);
        seen.push(known.and_then(|m| Some((m.modified().ok()?, m.len()))));
    }
    seen
}
