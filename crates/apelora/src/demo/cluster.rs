//! The demo's cluster: four simulated servers with their management controllers, and what is done to them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use apelora_lab::site::{BmcKind, MemberPlan, Site, SiteError, SitePlan};
use tokio::sync::mpsc::UnboundedSender;

use super::control::{Answer, Deed, Order};
use super::fleet::MEMBERS;

/// The simulated cluster, and what was done to whom. Clones are the same one.
#[derive(Clone)]
pub(crate) struct DemoCluster {
    site: Arc<Site>,
    /// Members that were not healed since.
    broken: Arc<Mutex<BTreeMap<String, Deed>>>,
    /// Who is told what was done.
    told: UnboundedSender<String>,
}

impl DemoCluster {
    /// Starts it, with its files in this folder. `seed` is what its ids and passwords are made of.
    ///
    /// # Errors
    /// When it cannot listen on loopback or write its files.
    pub(crate) async fn start(
        folder: &Path,
        seed: u64,
        since_1970: std::time::Duration,
        told: UnboundedSender<String>,
    ) -> Result<Self, SiteError> {
        let mut plan = SitePlan::demo(folder);
        plan.cluster.seed = seed;
        plan.cluster.wall_clock = since_1970;
        plan.members = MEMBERS
            .iter()
            .zip([BmcKind::Redfish, BmcKind::Redfish, BmcKind::Redfish, BmcKind::Ipmi])
            .map(|(name, bmc)| MemberPlan::new(name, bmc))
            .collect();
        let site = Arc::new(Site::start(plan).await?);
        Ok(Self { site, broken: Arc::default(), told })
    }

    /// The variables that a worker for this cluster needs, without the passwords' values.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let site = &self.site;
        let path = |path: std::path::PathBuf| path.into_os_string();
        let settings = [
            ("APELORA_INCUS_URL", site.incus_urls().join(",").into()),
            ("APELORA_INCUS_CLIENT_CERT", path(site.client_cert())),
            ("APELORA_INCUS_CLIENT_KEY", path(site.client_key())),
            ("APELORA_INCUS_SERVER_CERT", path(site.server_cert())),
            ("APELORA_BMC_MAP", path(site.bmc_map())),
            ("APELORA_WORKER_LISTEN", "127.0.0.1:0".into()),
        ];
        let secrets = site.secrets().keys().map(|name| (name.into(), OsString::new()));
        settings.map(|(name, value)| (name.into(), value)).into_iter().chain(secrets).collect()
    }

    /// The passwords of the management controllers, by the names that the BMC map has.
    pub(crate) fn secrets(&self) -> &BTreeMap<String, String> {
        self.site.secrets()
    }

    /// Does what was ordered.
    pub(crate) fn obey(&self, order: &Order) -> Answer {
        let member = order.member.as_str();
        if !MEMBERS.contains(&member) {
            return Answer::Refused(format!(
                "the demo's cluster has no server `{member}`: its servers are {}",
                MEMBERS.join(", ")
            ));
        }
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let already = broken.get(member).copied();
        let done = match (order.deed, already) {
            (Deed::Heal, None) => return Answer::Refused(format!("{member} is not broken")),
            (Deed::Heal, Some(_)) => self.site.heal(member),
            // Whatever became of it, its power can go on top of that.
            (Deed::LosePower, None | Some(Deed::Break | Deed::Hang | Deed::Cut)) => {
                self.site.lose_power(member)
            }
            (_, Some(already)) => {
                return Answer::Refused(format!(
                    "{member} {} already; `apelora demo heal {member}` brings it back",
                    has_become(already)
                ));
            }
            (Deed::Break, None) => self.site.crash(member),
            (Deed::Hang, None) => self.site.hang(member),
            (Deed::Cut, None) => self.site.cut(member),
        };
        if let Err(error) = done {
            return Answer::Refused(error.to_string());
        }
        match order.deed {
            Deed::Heal => broken.remove(member),
            deed => broken.insert(member.to_owned(), deed),
        };
        let sentence = told(order.deed, member);
        // The story may be over.
        let _ = self.told.send(format!("You did it: {sentence}"));
        Answer::Done(format!("{sentence} The demo's terminal tells what follows."))
    }
}

/// What became of a member, after its name.
const fn has_become(deed: Deed) -> &'static str {
    match deed {
        Deed::Break => "has crashed",
        Deed::LosePower => "has lost its power",
        Deed::Hang => "is frozen",
        Deed::Cut => "is cut off",
        Deed::Heal => "is back",
    }
}

fn told(deed: Deed, member: &str) -> String {
    let rest = match deed {
        Deed::Break => ", and its power is still on.",
        Deed::LosePower => "; its management controller, which is fed from elsewhere, reads Off.",
        Deed::Hang => ": nothing on it answers, and it could go on at any moment.",
        Deed::Cut => " from the cluster's network; it runs on, and so do its instances.",
        Deed::Heal => "; if it was off or had crashed, it boots first.",
    };
    format!("{member} {}{rest}", has_become(deed))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn text(answer: Answer) -> Result<String, String> {
        match answer {
            Answer::Done(text) => Ok(text),
            Answer::Refused(text) => Err(text),
        }
    }

    #[tokio::test]
    async fn a_server_is_broken_once_and_healed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (told, mut heard) = unbounded_channel();
        let cluster =
            DemoCluster::start(folder.path(), 7, std::time::Duration::from_secs(1_800_000_000), told)
                .await
                .unwrap();
        let order = |deed, member: &str| text(cluster.obey(&Order { deed, member: member.to_owned() }));

        let unknown = order(Deed::Break, "s5").unwrap_err();
        assert_eq!(unknown, "the demo's cluster has no server `s5`: its servers are s1, s2, s3, s4");
        assert_eq!(order(Deed::Heal, "s3").unwrap_err(), "s3 is not broken");
        assert!(cluster.site.is_alive("s3").unwrap());

        assert!(order(Deed::Break, "s3").unwrap().starts_with("s3 has crashed, and its power is still on."));
        assert!(!cluster.site.is_alive("s3").unwrap() && cluster.site.has_power("s3").unwrap());
        let again = order(Deed::Hang, "s3").unwrap_err();
        assert_eq!(again, "s3 has crashed already; `apelora demo heal s3` brings it back");

        assert!(order(Deed::LosePower, "s3").unwrap().contains("reads Off"));
        assert!(!cluster.site.has_power("s3").unwrap());
        assert!(order(Deed::LosePower, "s3").unwrap_err().contains("has lost its power already"));

        for (deed, words) in [(Deed::Hang, "is frozen"), (Deed::Cut, "is cut off")] {
            assert!(order(deed, "s4").unwrap().contains(words));
            assert!(cluster.site.has_power("s4").unwrap());
            assert!(order(Deed::Heal, "s4").unwrap().starts_with("s4 is back"));
        }
        order(Deed::Heal, "s3").unwrap();
        assert!(cluster.site.has_power("s3").unwrap());

        let first = heard.recv().await.unwrap();
        assert!(first.starts_with("You did it: s3 has crashed"), "{first}");
        assert_eq!(heard.len(), 6, "only what was done is told");
    }

    #[tokio::test]
    async fn a_worker_can_be_configured_for_it_and_sees_no_password() {
        let folder = tempfile::tempdir().unwrap();
        let (told, _heard) = unbounded_channel();
        let cluster = DemoCluster::start(folder.path(), 7, std::time::Duration::ZERO, told).await.unwrap();
        let environment = cluster.environment();
        assert_eq!(cluster.secrets().len(), MEMBERS.len());
        for (name, password) in cluster.secrets() {
            let (_, value) = environment.iter().find(|(n, _)| n == name.as_str()).unwrap();
            assert!(value.is_empty() && !password.is_empty());
        }
    }
}
