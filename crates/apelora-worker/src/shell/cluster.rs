//! The cluster, as the shell reaches it: several endpoints, each with its own deadline, asked side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apelora_fencing::view::ViewError;
use apelora_fencing::{Clock, MemberName};
use apelora_http::{ClientIdentity, Dial, Endpoint, Network, Trust};
use apelora_incus::{Client, Refusal, View};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{IncusConfig, Reach};
use crate::observe::{self, Answered, Sight};

/// How many endpoints are asked at once. Two answers are needed; a third one is there for the one that does not answer.
const WIDTH: usize = 3;
/// What `GET /1.0` may take (tests/data/incus/README.md section 6).
const SERVER_LIMIT: Duration = Duration::from_secs(2);
/// What the member list may take.
const MEMBERS_LIMIT: Duration = Duration::from_secs(5);
/// What a whole look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(7);
/// What asking a member that is thought to be off may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How much later a look is cut off that does not keep its limit.
const LOOK_SLACK: Duration = Duration::from_millis(500);
/// More addresses of one member than this are not remembered.
const MOST_ADDRESSES: usize = 4;
/// More endpoints than this are not learnt.
const MOST_LEARNT: usize = 128;

/// The cluster.
pub(crate) enum Cluster {
    Incus(Endpoints),
    #[cfg(test)]
    Scripted(Arc<super::scripted::Site>),
}

/// What runs in the cluster.
pub(crate) struct Running {
    pub(crate) instances: Vec<apelora_incus::Instance>,
    /// Pools that every member reaches.
    pub(crate) shared: BTreeSet<String>,
}

impl Cluster {
    /// Asks who is in the cluster and how they are. Ends within its own limit, whoever hangs.
    pub(super) async fn look(&self, clock: &Arc<dyn Clock>) -> Sight {
        let looked = async {
            match self {
                Self::Incus(endpoints) => endpoints.look(clock).await,
                #[cfg(test)]
                Self::Scripted(site) => site.look(&**clock).await,
            }
        };
        // The endpoints have their own, shorter limits.
        timeout(LOOK_LIMIT + LOOK_SLACK, looked).await.unwrap_or_else(|_| {
            Sight::unreadable(ViewError::Unreadable("the cluster did not answer in time".into()))
        })
    }

    /// Asks what runs where, by this time. The text of an error is for people.
    pub(super) async fn running(&self, by: Instant) -> Result<Running, String> {
        match self {
            Self::Incus(endpoints) => endpoints.running(by).await,
            #[cfg(test)]
            Self::Scripted(site) => site.running().await,
        }
    }

    /// Whether this very member answers where it was found before. That nobody does says nothing.
    pub(crate) async fn answers(&self, member: &MemberName) -> bool {
        match self {
            Self::Incus(endpoints) => endpoints.answers(member).await,
            #[cfg(test)]
            Self::Scripted(_) => false,
        }
    }

    /// A client of its own for somebody who acts: of an endpoint that answered lately.
    pub(crate) fn client(&self) -> Option<Client> {
        match self {
            Self::Incus(endpoints) => endpoints.client(),
            #[cfg(test)]
            Self::Scripted(_) => None,
        }
    }
}

/// The configured endpoints, and those that were learnt from member lists.
pub(crate) struct Endpoints {
    dial: Arc<dyn Dial>,
    trust: Trust,
    identity: Option<Arc<ClientIdentity>>,
    healing_off: bool,
    shared_pools: Vec<String>,
    /// This host's names.
    names: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    places: Vec<Place>,
    /// Where each member itself was found: its address in the member lists, and endpoints at which it answered.
    addresses: BTreeMap<MemberName, Vec<Endpoint>>,
    /// The member behind this host's own socket.
    socket: Option<MemberName>,
}

struct Place {
    client: Arc<Client>,
    learnt: bool,
    /// Whether it answered when it was last asked.
    good: bool,
    /// When it answered last. One that hangs is not waited for, so nobody says that it is not good.
    answered: Option<Instant>,
}

impl Known {
    fn found(&mut self, member: &str, at: &Endpoint) {
        let addresses = self.addresses.entry(member.into()).or_default();
        // The latest last, and the oldest is forgotten first.
        addresses.retain(|known| known != at);
        addresses.push(at.clone());
        if addresses.len() > MOST_ADDRESSES {
            addresses.remove(0);
        }
    }
}

impl Place {
    fn name(&self) -> String {
        self.client.endpoint().to_string()
    }
}

impl Endpoints {
    /// Those that are configured.
    pub(crate) fn new(config: &IncusConfig, reach: Reach, names: Vec<String>) -> Self {
        Self::through(Arc::new(Network), config, reach, names)
    }

    /// As [`new`](Self::new), over streams that somebody else opens.
    pub(crate) fn through(
        dial: Arc<dyn Dial>,
        config: &IncusConfig,
        reach: Reach,
        names: Vec<String>,
    ) -> Self {
        let Reach { endpoints, trust, identity } = reach;
        let place = |endpoint| {
            let client =
                Arc::new(Client::through(Arc::clone(&dial), endpoint, trust.clone(), identity.clone()));
            Place { client, learnt: false, good: true, answered: None }
        };
        let places = endpoints.into_iter().map(place).collect();
        Self {
            healing_off: config.healing_off,
            shared_pools: config.shared_pools.clone(),
            names,
            known: Mutex::new(Known { places, ..Known::default() }),
            trust,
            identity,
            dial,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, clock: &Arc<dyn Clock>) -> Sight {
        // Those that answered last come first.
        let mut waiting: Vec<_> =
            self.known().places.iter().map(|p| (!p.good, Arc::clone(&p.client))).collect();
        waiting.sort_by_key(|(bad, _)| *bad);
        let mut waiting = waiting.into_iter().map(|(_, client)| client);
        let mut asking = JoinSet::new();
        for client in waiting.by_ref().take(WIDTH) {
            asking.spawn(ask(client, Arc::clone(clock)));
        }
        let limit = Instant::now() + LOOK_LIMIT;
        let (mut answers, mut lists, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        while let Ok(Some(asked)) = timeout_at(limit, asking.join_next()).await {
            let Ok((client, result)) = asked else { continue };
            self.note(&client, result.as_ref().ok());
            match result {
                Ok((asked, list)) => {
                    match observe::view(asked, &list) {
                        Ok(view) => answers.push(Answered { view, healing: list.server.healing.clone() }),
                        // One list that contradicts itself makes all of them doubtful: they come from one database.
                        Err(problem) => return Sight::unreadable(problem),
                    }
                    lists.push(list);
                    if observe::is_enough(&answers) {
                        break;
                    }
                }
                Err(problem) => problems.push(problem),
            }
            if let Some(client) = waiting.next() {
                asking.spawn(ask(client, Arc::clone(clock)));
            }
        }
        self.learn(&lists);
        let problem = || match problems.is_empty() {
            true => format!("no endpoint answered within {} s", LOOK_LIMIT.as_secs_f32()),
            false => problems.join("; "),
        };
        let (view, second) = observe::pair(&answers, problem);
        let own_host = lists.first().and_then(|list| self.own_host(list));
        Sight { view, second, healing: observe::healing(&answers, self.healing_off), own_host }
    }

    /// Remembers how an endpoint did, and who is behind this host's own socket.
    fn note(&self, client: &Arc<Client>, list: Option<&(apelora_fencing::BootTime, View)>) {
        let mut known = self.known();
        if let Some(place) = known.places.iter_mut().find(|p| Arc::ptr_eq(&p.client, client)) {
            place.good = list.is_some();
            place.answered = list.map(|_| Instant::now()).or(place.answered);
        }
        let Some((_, list)) = list else { return };
        known.found(&list.server.name, client.endpoint());
        if let Endpoint::Unix(_) = client.endpoint() {
            known.socket = Some(list.server.name.as_str().into());
        }
    }

    /// Learns the members' own addresses, to be asked with the same trust. Without a client certificate no member would
    /// answer there.
    fn learn(&self, lists: &[View]) {
        let Some(list) = lists.first().filter(|_| self.identity.is_some()) else { return };
        let address =
            |m: &apelora_incus::Member| Some((m.name.clone(), apelora_incus::endpoint(&m.url).ok()?));
        let listed: Vec<(String, Endpoint)> = list.members.iter().filter_map(address).collect();
        let names: BTreeSet<_> = listed.iter().map(|(_, endpoint)| endpoint.to_string()).collect();
        let mut known = self.known();
        known.places.retain(|place| !place.learnt || names.contains(&place.name()));
        for (member, endpoint) in listed {
            known.found(&member, &endpoint);
            let is_network = !matches!(endpoint, Endpoint::Unix(_));
            let is_new = known.places.iter().all(|place| place.name() != endpoint.to_string());
            if is_network && is_new && known.places.len() < MOST_LEARNT {
                let (dial, trust) = (Arc::clone(&self.dial), self.trust.clone());
                let client = Arc::new(Client::through(dial, endpoint, trust, self.identity.clone()));
                known.places.push(Place { client, learnt: true, good: true, answered: None });
            }
        }
    }

    fn own_host(&self, list: &View) -> Option<MemberName> {
        let socket = self.known().socket.clone();
        let members: Vec<_> =
            list.members.iter().map(|m| (m.name.as_str().into(), observe::address(&m.url))).collect();
        observe::own_host(socket.as_ref(), &members, &self.names, is_own_address)
    }

    async fn answers(&self, member: &MemberName) -> bool {
        let mut asking = JoinSet::new();
        let addresses = self.known().addresses.get(member).cloned().unwrap_or_default();
        for endpoint in addresses {
            let (dial, trust) = (Arc::clone(&self.dial), self.trust.clone());
            let client = Client::through(dial, endpoint, trust, self.identity.clone());
            asking.spawn(async move { client.server(Instant::now() + ANSWER_LIMIT).await });
        }
        while let Some(asked) = asking.join_next().await {
            match asked {
                // The address may be another's by now.
                Ok(Ok(server)) if server.name != member.as_str() => {}
                Ok(Err(failure)) if !failure.may_have_been_sent() => {}
                // It is there, also if it was reached and trusted and has nothing useful to say yet, as while it starts.
                Ok(_) => return true,
                Err(_) => {}
            }
        }
        false
    }

    fn client(&self) -> Option<Client> {
        let known = self.known();
        let good = known.places.iter().rev().filter(|p| p.good);
        let place = good.max_by_key(|p| p.answered).or_else(|| known.places.first())?;
        Some(place.client.another())
    }

    async fn running(&self, by: Instant) -> Result<Running, String> {
        let Some(client) = self.client() else { return Err("there is no endpoint".into()) };
        let instances = client.instances_in_full(by).await.map_err(|failure| failure.to_string())?;
        let pools = match client.pools(by).await {
            Ok(pools) => Some(pools),
            // A restricted certificate may not read pools: then the attestation counts. Any other failure says nothing: it
            // must not make every volume a local one.
            Err(failure) if failure.refusal() == Some(Refusal::Restricted) => None,
            Err(failure) => return Err(failure.to_string()),
        };
        Ok(Running { instances, shared: observe::shared_pools(pools.as_deref(), &self.shared_pools) })
    }
}

type Asked = (Arc<Client>, Result<(apelora_fencing::BootTime, View), String>);

/// Asks one endpoint. A server that does not even say who it is has no list to wait for.
async fn ask(client: Arc<Client>, clock: Arc<dyn Clock>) -> Asked {
    let result = async {
        client.server(Instant::now() + SERVER_LIMIT).await?;
        let asked = clock.boot();
        let list = client.view(Instant::now() + MEMBERS_LIMIT).await?;
        Ok((asked, list))
    };
    let result = result.await.map_err(|failure: apelora_incus::IncusError| failure.to_string());
    (client, result)
}

/// Whether this host has the address: it is the one from which it would reach it. Nothing is sent.
fn is_own_address(address: IpAddr) -> bool {
    let any: (IpAddr, u16) = match address {
        IpAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let from = UdpSocket::bind(any).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}
