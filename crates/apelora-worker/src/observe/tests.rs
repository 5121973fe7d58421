use apelora_incus::{Autostart, Device, InstanceConfig, Pool, Server, View};

use super::*;

fn member(name: &str, status: &str, roles: &[&str], domain: &str) -> Member {
    Member {
        name: name.into(),
        url: format!("https://{name}:8443"),
        status: status.into(),
        message: String::new(),
        database: true,
        roles: roles.iter().map(|r| (*r).to_owned()).collect(),
        failure_domain: domain.into(),
        architecture: "x86_64".into(),
    }
}

fn answer(responder: &str, members: Vec<Member>) -> View {
    let server = Server {
        name: responder.into(),
        version: "6.0.4".into(),
        clustered: true,
        architectures: vec!["x86_64".into()],
        certificate_fingerprint: String::new(),
        healing: HealingSetting::Off,
        offline_threshold: None,
    };
    View { server, members }
}

fn answered(responder: &str, members: &[(&str, &str)]) -> Answered {
    let members = members.iter().map(|(n, s)| member(n, s, &[], "default")).collect();
    Answered {
        view: view(BootTime::default(), &answer(responder, members)).unwrap(),
        healing: HealingSetting::Off,
    }
}

#[test]
fn the_answering_member_is_the_one_that_says_so_and_words_are_exact() {
    let list = vec![
        member("s1", "Online", &["database-leader", "database"], "default"),
        member("s2", "OFFLINE", &[], "rack-2"),
        member("s3", "Evacuating", &[], ""),
    ];
    let seen = view(BootTime::default(), &answer("s1", list)).unwrap();
    assert_eq!(seen.responder().as_str(), "s1");
    assert_eq!(seen.leader().map(MemberName::as_str), Some("s1"));
    assert_eq!(seen.status(&"s2".into()), Some(&Status::Unknown("OFFLINE".into())));
    assert!(seen.status(&"s2".into()).is_some_and(Status::counts_offline));
    let domains: Vec<_> = seen.members().iter().map(|l| l.failure_domain.as_deref()).collect();
    assert_eq!(domains, [None, Some("rack-2"), None], "an unset failure domain is none");
}

#[test]
fn lists_that_contradict_themselves_are_no_view() {
    let now = BootTime::default();
    assert_eq!(view(now, &answer("s1", vec![])), Err(ViewError::Empty));
    let long = "x".repeat(256);
    for (name, why) in
        [("", "is empty"), (long.as_str(), "longer than 255"), ("s2\0", "control"), ("s\u{1b}[2J", "control")]
    {
        let list = vec![member("s1", "Online", &[], ""), member(name, "Online", &[], "")];
        let refused = view(now, &answer("s1", list)).unwrap_err().to_string();
        assert!(refused.contains(why) && !refused.contains('\u{1b}') && refused.len() < 200, "{refused}");
    }
    let longest = "ä".repeat(255);
    let list = vec![member(&longest, "Online", &[], "")];
    assert!(view(now, &answer(&longest, list)).is_ok());
    let twice = vec![member("s1", "Online", &[], ""), member("s1", "Offline", &[], "")];
    assert_eq!(view(now, &answer("s1", twice)), Err(ViewError::Twice("s1".into())));
    let nameless = vec![member("", "Online", &[], "")];
    assert!(matches!(view(now, &answer("s1", nameless)), Err(ViewError::Unreadable(_))));
    let two = vec![
        member("s1", "Online", &["database-leader"], ""),
        member("s2", "Online", &["database-leader"], ""),
    ];
    assert_eq!(view(now, &answer("s1", two)).unwrap().leader(), None, "two leaders are none");
}

#[test]
fn the_second_view_is_another_members_and_agreement_plays_no_part() {
    let list = [("s1", "Offline"), ("s2", "Online"), ("s3", "Online")];
    let other = [("s1", "Online"), ("s2", "Online"), ("s3", "Online")];
    let answers = [answered("s2", &list), answered("s2", &list), answered("s3", &other)];
    assert!(!is_enough(&answers[..2]), "one member twice is one");
    assert!(is_enough(&answers));
    let (first, second) = pair(&answers, || unreachable!());
    assert_eq!(first.unwrap().responder().as_str(), "s2");
    assert!(matches!(second, SecondView::Seen(v) if v.responder().as_str() == "s3"));
    let (first, second) = pair(&answers[..1], || unreachable!());
    assert!(first.is_ok());
    assert_eq!(second, SecondView::Missing);
    let (none, _) = pair(&[], || "nobody answers".into());
    assert_eq!(none, Err(ViewError::Unreadable("nobody answers".into())));
}

#[test]
fn a_member_that_does_not_list_itself_online_is_asked_last() {
    let list = [("s1", "Evacuated"), ("s2", "Online"), ("s3", "Online")];
    let answers = [answered("s1", &list), answered("s3", &list)];
    assert!(!is_enough(&answers));
    assert_eq!(pair(&answers, String::new).0.unwrap().responder().as_str(), "s3");
}

#[test]
fn healing_that_reads_on_is_on_whatever_is_attested() {
    let of = |settings: &[HealingSetting]| -> Vec<Answered> {
        let base = answered("s1", &[("s1", "Online")]);
        settings.iter().map(|h| Answered { healing: h.clone(), ..base.clone() }).collect()
    };
    let (off, on, hidden) = (HealingSetting::Off, HealingSetting::On("30".into()), HealingSetting::Hidden);
    assert_eq!(healing(&of(&[off.clone(), on.clone()]), true), Healing::On);
    assert_eq!(healing(&of(&[hidden.clone(), off]), false), Healing::Off);
    assert_eq!(healing(&of(std::slice::from_ref(&hidden)), true), Healing::Off);
    assert_eq!(healing(&of(std::slice::from_ref(&hidden)), false), Healing::Unknown);
    assert_eq!(healing(&[], false), Healing::Unknown);
    assert_eq!(healing(&of(&[hidden, on]), true), Healing::On);
}

#[test]
fn the_own_host_is_known_by_socket_address_or_name() {
    let ip = |text: &str| text.parse::<IpAddr>().ok();
    let members: Vec<(MemberName, _)> =
        vec![("s1".into(), ip("10.0.0.1")), ("s2".into(), ip("10.0.0.2")), ("s3".into(), None)];
    let find = |socket: Option<&str>, names: &[&str], own: Option<&str>| {
        let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
        let own = own.and_then(ip);
        own_host(socket.map(MemberName::from).as_ref(), &members, &names, |a| Some(a) == own)
            .map(|m| m.as_str().to_owned())
    };
    assert_eq!(find(Some("s3"), &["s1"], Some("10.0.0.2")).as_deref(), Some("s3"));
    assert_eq!(find(None, &["s1"], Some("10.0.0.2")).as_deref(), Some("s2"));
    assert_eq!(find(None, &["s1"], None).as_deref(), Some("s1"));
    assert_eq!(find(None, &["s3.example.org"], None).as_deref(), Some("s3"));
    assert_eq!(find(None, &["worker"], None), None);
    assert_eq!(find(None, &["S1"], None).as_deref(), Some("s1"), "host names have no case");
    assert_eq!(find(None, &["S3.Example.org"], None).as_deref(), Some("s3"));
    for order in [["S1", "s1"], ["s1", "S1"]] {
        let both: Vec<(MemberName, _)> = order.map(|name| (name.into(), None)).into();
        let find = |own: &str| own_host(None, &both, &[own.to_owned()], |_| false);
        assert_eq!(find("s1"), Some("s1".into()), "the exact one first");
        assert_eq!(find("S1"), Some("S1".into()));
        let dotted: Vec<(MemberName, _)> =
            order.map(|name| (format!("{name}.b").as_str().into(), None)).into();
        assert_eq!(
            own_host(None, &dotted, &["s1.a".to_owned()], |_| false),
            Some("S1.b".into()),
            "in any order"
        );
    }
    let all_here: Vec<(MemberName, _)> = vec![("s1".into(), ip("10.0.0.1")), ("s2".into(), ip("10.0.0.1"))];
    assert_eq!(own_host(None, &all_here, &[], |_| true), None, "an address of several members tells nothing");
    let loopback: Vec<(MemberName, _)> = vec![("s1".into(), ip("127.0.0.1"))];
    assert_eq!(own_host(None, &loopback, &[], |_| true), None);
}

#[test]
fn addresses_of_members_are_read_from_their_urls() {
    for (url, address_is) in [
        ("https://10.1.2.3:8443", Some("10.1.2.3")),
        ("https://10.1.2.3", Some("10.1.2.3")),
        ("https://[2001:db8::1]:8443", Some("2001:db8::1")),
        ("https://s1:8443", None),
        ("http://10.1.2.3:8443", None),
    ] {
        assert_eq!(address(url).map(|a| a.to_string()).as_deref(), address_is, "{url}");
    }
}

fn disk(pool: &str) -> Device {
    Device {
        name: "root".into(),
        kind: "disk".into(),
        pool: Some(pool.into()),
        source: None,
        path: Some("/".into()),
        network: None,
    }
}

fn instance(name: &str, location: &str) -> apelora_incus::Instance {
    apelora_incus::Instance {
        project: "default".into(),
        name: name.into(),
        location: location.into(),
        status: "Running".into(),
        kind: "container".into(),
        config: Some(InstanceConfig {
            architecture: "x86_64".into(),
            ephemeral: false,
            autostart: Autostart::Unset,
            autostart_priority: 0,
            evacuate: None,
            last_power: Some("RUNNING".into()),
            memory: Some("1GiB".into()),
            devices: vec![disk("shared")],
        }),
        has_backups: Some(false),
    }
}

#[test]
fn only_what_is_known_whole_and_of_an_online_member_is_kept() {
    let online: BTreeSet<MemberName> = ["s1".into(), "s2".into()].into();
    let shared = BTreeSet::from(["shared".to_owned()]);
    let unknown = apelora_incus::Instance { config: None, ..instance("b", "s2") };
    let list = [instance("c", "s2"), unknown, instance("a", "s3"), instance("d", "s1")];
    let kept = inventory(&list, &online, &shared);
    assert_eq!(kept.keys().map(MemberName::as_str).collect::<Vec<_>>(), ["s1"]);
    assert_eq!(kept[&"s1".into()][0].name, "d");
    assert!(kept[&"s1".into()][0].shared_storage && kept[&"s1".into()][0].was_running);
    let none = inventory(&[], &online, &shared);
    assert_eq!(none.len(), 2, "a member that runs nothing is known to run nothing");
}

#[test]
fn a_pool_or_a_device_that_is_not_known_to_be_elsewhere_ties() {
    let online: BTreeSet<MemberName> = ["s1".into()].into();
    let of = |change: fn(&mut InstanceConfig)| {
        let mut is = instance("a", "s1");
        is.config.as_mut().map(change);
        inventory(&[is], &online, &BTreeSet::from(["shared".to_owned()]))
            .remove(&"s1".into())
            .unwrap()
            .remove(0)
    };
    assert!(
        !of(|c| c.devices.push(Device { name: "data".into(), path: None, ..disk("local") })).shared_storage
    );
    assert!(!of(|c| c.devices.clear()).shared_storage, "without a root disk nothing is known");
    let gpu = |c: &mut InstanceConfig| {
        c.devices.push(Device { name: "gpu".into(), kind: "gpu".into(), pool: None, ..disk("x") });
    };
    assert!(of(gpu).local_device);
    let bridged = |c: &mut InstanceConfig| {
        c.devices.push(Device {
            name: "eth0".into(),
            kind: "nic".into(),
            pool: None,
            path: None,
            ..disk("x")
        });
    };
    assert!(of(bridged).local_device);
    assert!(!of(|_| {}).local_device);
}

#[test]
fn a_readable_driver_overrules_the_attestation() {
    let pool = |name: &str, driver: &str| Pool {
        name: name.into(),
        driver: driver.into(),
        status: "Created".into(),
    };
    let attested = ["fast".to_owned(), "slow".to_owned()];
    let readable = [pool("fast", "dir"), pool("slow", "ceph"), pool("odd", "new-driver")];
    assert_eq!(shared_pools(Some(&readable), &attested), BTreeSet::from(["slow".to_owned()]));
    assert_eq!(shared_pools(None, &attested), attested.into());
}

#[test]
fn a_virtual_machine_without_a_limit_needs_what_incus_gives_it() {
    let of = |kind: &str, memory: Option<&str>| {
        let mut is = apelora_incus::Instance { kind: kind.into(), ..instance("a", "s1") };
        is.config.as_mut().unwrap().memory = memory.map(Into::into);
        inventory(&[is], &["s1".into()].into(), &BTreeSet::new()).remove(&"s1".into()).unwrap()[0].memory
    };
    assert_eq!(of("virtual-machine", None), Some(1 << 30));
    assert_eq!(of("virtual-machine", Some("2GiB")), Some(2 << 30));
    assert_eq!(of("container", None), None);
}
