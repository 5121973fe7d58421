//! Where an instance is by the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_fencing::recovery::{Heard, Place};
use apelora_incus::{Client, Refusal};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::shell::Cluster;

/// What asking for one instance may take: the question is forwarded to its member, and hangs for 10 s when that is gone,
/// also half a minute after it is Offline. The list of all instances answers at once then.
const ONE_LIMIT: Duration = Duration::from_secs(2);
/// What the list of all instances may take (tests/data/incus/README.md section 6).
const LIST_LIMIT: Duration = Duration::from_secs(35);

/// An instance's project and name.
pub(super) type Name = (String, String);

/// Every instance that the cluster lists.
pub(super) type Listing = BTreeMap<Name, Place>;

/// Asks. An instance of a member that is gone can only be found in the list of all instances (section 0, fact 5), which is
/// shared by those who wait for it at the same time.
#[derive(Default)]
pub(super) struct Looker {
    asked: AtomicU64,
    /// The latest list, and how many questions there had been when it was asked for.
    listed: Mutex<Option<(u64, Arc<Listing>)>>,
}

impl Looker {
    /// The list of all instances, asked for now or later. The text of an error is for people.
    pub(super) async fn list(&self, cluster: &Cluster) -> Result<Arc<Listing>, String> {
        let by = Instant::now() + LIST_LIMIT;
        let mine = self.asked.fetch_add(1, Ordering::SeqCst);
        let late = |_| "what is where could not be asked in time".to_owned();
        let mut listed = timeout_at(by, self.listed.lock()).await.map_err(late)?;
        if let Some((asked, listing)) = &*listed
            && *asked > mine
        {
            return Ok(Arc::clone(listing));
        }
        let asked = self.asked.load(Ordering::SeqCst);
        let Some(client) = cluster.client() else { return Err("there is no endpoint".into()) };
        let all = client.instances(by).await.map_err(|failure| failure.to_string())?;
        let entry = |i: apelora_incus::Instance| {
            let place = place(&i);
            ((i.project, i.name), place)
        };
        let listing = Arc::new(all.into_iter().map(entry).collect::<Listing>());
        *listed = Some((asked, Arc::clone(&listing)));
        Ok(listing)
    }

    /// Where one instance is. It counts as deleted only when two questions say so.
    pub(super) async fn look(&self, cluster: &Cluster, client: &Client, project: &str, name: &str) -> Heard {
        let failure = match client.instance(project, name, Instant::now() + ONE_LIMIT).await {
            Ok(instance) => return Heard::Place(place(&instance)),
            Err(failure) => failure,
        };
        match self.list(cluster).await {
            Err(problem) => Heard::Unreadable(problem),
            Ok(listing) => match listing.get(&(project.to_owned(), name.to_owned())) {
                Some(place) => Heard::Place(place.clone()),
                None if failure.refusal() == Some(Refusal::NotFound) => Heard::Place(Place::Gone),
                None => Heard::Unreadable(failure.to_string()),
            },
        }
    }
}

fn place(instance: &apelora_incus::Instance) -> Place {
    let member = MemberName::from(instance.location.as_str());
    // A frozen one has its storage open, and somebody froze it; a ready one runs and has said so itself.
    Place::At { member, running: matches!(instance.status.as_str(), "Running" | "Ready" | "Frozen") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_has_several_words() {
        for (status, is) in [
            ("Running", true),
            ("Ready", true),
            ("Frozen", true),
            ("Stopped", false),
            ("Error", false),
            ("running", false),
        ] {
            let instance = apelora_incus::Instance {
                project: "default".into(),
                name: "db".into(),
                location: "s2".into(),
                status: status.into(),
                kind: "container".into(),
                config: None,
                has_backups: None,
            };
            assert_eq!(place(&instance), Place::At { member: "s2".into(), running: is }, "{status}");
        }
    }
}
