use proptest::prelude::*;

use super::*;
use crate::command::LockspaceName;

/// Answers of sanlock 3.8.5: two hosts of one lockspace, as the first of them sees it.
const LOCKSPACES: &[u8] = include_bytes!("../../tests/recorded/lockspaces.bin");
const HOSTS: &[u8] = include_bytes!("../../tests/recorded/hosts.bin");
const HOST_STATUS: &[u8] = include_bytes!("../../tests/recorded/host_status.bin");
const STATUS: &[u8] = include_bytes!("../../tests/recorded/status.bin");

fn name() -> LockspaceName {
    LockspaceName::new("lvm_labvg").unwrap()
}

fn commands() -> [(Command, &'static [u8]); 4] {
    [
        (Command::Lockspaces, LOCKSPACES),
        (Command::Hosts(name()), HOSTS),
        (Command::HostStatus(name()), HOST_STATUS),
        (Command::Status, STATUS),
    ]
}

/// Decodes what `command` would; the number of records.
fn decode(command: &Command, bytes: &[u8]) -> Result<usize, SanlockError> {
    let header = header(command, bytes)?;
    let records = match command {
        Command::Lockspaces => lockspaces(&header, bytes).map(|l| l.len()),
        Command::Hosts(_) => hosts(&header, bytes).map(|h| h.len()),
        Command::HostStatus(_) => host_status(&header, bytes).map(|h| h.len()),
        Command::Status => status(&header, bytes, None).map(|(_, l)| l.len()),
    };
    records.map_err(|problem| SanlockError::Garbage { command: command.clone(), problem })
}

fn problem(command: &Command, bytes: &[u8]) -> Garbage {
    match decode(command, bytes) {
        Err(SanlockError::Garbage { problem, .. }) => problem,
        other => panic!("{command}: {other:?}"),
    }
}

#[test]
fn recorded_answers() {
    let at = |bytes| header(&Command::Lockspaces, bytes).unwrap();
    let listed = lockspaces(&at(LOCKSPACES), LOCKSPACES).unwrap();
    assert_eq!(listed, [Listed { name: b"lvm_labvg".to_vec(), host_id: 1, membership: Membership::Joined }]);

    let states = hosts(&header(&Command::Hosts(name()), HOSTS).unwrap(), HOSTS).unwrap();
    let live = Seen { state: HostState::Live, generation: 1, timestamp: 722, io_timeout: 1 };
    assert_eq!(states, BTreeMap::from([(1, live), (2, live)]));

    let rows = host_status(&header(&Command::HostStatus(name()), HOST_STATUS).unwrap(), HOST_STATUS).unwrap();
    let second = Host {
        host_id: 2,
        state: None,
        owner_id: 2,
        generation: 1,
        timestamp: 722,
        last_check: 725,
        last_live: 725,
        io_timeout: 1,
        owner_name: "member-02".into(),
    };
    assert_eq!(rows[&2], second);
    let hosts = joined(&states, rows).unwrap();
    assert_eq!(hosts[1], Host { state: Some(HostState::Live), ..second });

    let (daemon, spaces) = status(&header(&Command::Status, STATUS).unwrap(), STATUS, Some(7)).unwrap();
    let expected = DaemonStatus {
        name: "member-01".into(),
        pid: Some(7),
        monotime: 728,
        use_watchdog: false,
        version: "3.8.5".into(),
    };
    assert_eq!(daemon, expected);
    let [space] = &spaces[..] else { panic!("one lockspace") };
    assert_eq!((&*space.name, space.host_id, space.io_timeout), ("lvm_labvg", 1, 1));
    assert_eq!((space.renewal_last_result, space.renewal_last_success), (1, 727));
    assert!(!space.space_dead && !space.killing_pids && !space.renew_fail);
}

#[test]
fn an_answer_that_is_cut_is_refused_or_lacks_whole_records() {
    for (command, bytes) in commands() {
        let whole = decode(&command, bytes).unwrap();
        for end in 0..bytes.len() {
            let cut = decode(&command, &bytes[..end]);
            assert!(cut.is_err() || cut.is_ok_and(|n| n < whole), "{command} cut at {end}");
        }
    }
}

#[test]
fn rows_that_are_lost_are_noticed() {
    let states = hosts(&header(&Command::Hosts(name()), HOSTS).unwrap(), HOSTS).unwrap();
    let all = host_status(&header(&Command::HostStatus(name()), HOST_STATUS).unwrap(), HOST_STATUS).unwrap();
    for lost in [1, 2] {
        let mut rows = all.clone();
        rows.remove(&lost);
        assert_eq!(joined(&states, rows), None, "row {lost}");
        let mut fewer = states.clone();
        fewer.remove(&lost);
        assert_eq!(joined(&fewer, all.clone()), None, "state {lost}");
    }
    let changes: [fn(&mut Host); 3] = [|h| h.timestamp += 2, |h| h.generation += 1, |h| h.io_timeout = 10];
    for (i, change) in changes.iter().enumerate() {
        let mut rows = all.clone();
        change(rows.get_mut(&2).unwrap());
        assert_eq!(joined(&states, rows), None, "change {i}");
    }
    // A released lease has a row and no state.
    let mut rows = all;
    rows.insert(3, Host { host_id: 3, timestamp: 0, ..rows[&2].clone() });
    let hosts = joined(&states, rows).unwrap();
    assert_eq!((hosts.len(), hosts[2].state), (3, None));
}

#[test]
fn headers_that_say_no() {
    let with = |command: &Command, result: i32| {
        let mut bytes = HOSTS[..32].to_vec();
        bytes[8..12].copy_from_slice(&command.code().to_ne_bytes());
        bytes[24..28].copy_from_slice(&result.to_ne_bytes());
        header(command, &bytes).unwrap_err()
    };
    let (hosts, rows) = (Command::Hosts(name()), Command::HostStatus(name()));
    let name = "lvm_labvg".to_owned();
    assert_eq!(with(&hosts, -2), SanlockError::NoLockspace { name: name.clone() });
    assert_eq!(with(&rows, -28), SanlockError::NoLockspace { name: name.clone() });
    assert_eq!(with(&hosts, -11), SanlockError::NotReady { name });
    assert_eq!(with(&hosts, -28), SanlockError::Refused { command: hosts.clone(), result: -28 });
    assert_eq!(with(&hosts, 5), SanlockError::Refused { command: hosts, result: 5 });
    assert_eq!(with(&Command::Status, -2), SanlockError::Refused { command: Command::Status, result: -2 });
}

#[test]
fn headers_of_something_else() {
    let changed = |at: usize, to: u32| {
        let mut bytes = HOSTS.to_vec();
        bytes[at..at + 4].copy_from_slice(&to.to_ne_bytes());
        decode(&Command::Hosts(name()), &bytes).unwrap_err()
    };
    let garbage = |problem| SanlockError::Garbage { command: Command::Hosts(name()), problem };
    assert_eq!(changed(0, 1), garbage(Garbage::Magic));
    assert_eq!(changed(4, 0x0002_0001), SanlockError::Version { major: 2, minor: 1 });
    assert_eq!(changed(8, 22), garbage(Garbage::OtherCommand(22)));
    assert_eq!(changed(16, 64), garbage(Garbage::Length(64)));
    assert_eq!(changed(28, 3), garbage(Garbage::Length(96)));
    assert_eq!(changed(28, u32::MAX), garbage(Garbage::Length(96)));
    assert_eq!(changed(32, 0), garbage(Garbage::HostId(0)));
    assert_eq!(changed(32, 2), garbage(Garbage::HostId(2)));
    assert_eq!(changed(32, 2001), garbage(Garbage::HostId(2001)));
    assert_eq!(changed(60, 0), garbage(Garbage::State { host_id: 1, state: 0 }));
    assert_eq!(changed(60, 6), garbage(Garbage::State { host_id: 1, state: 6 }));
}

#[test]
fn records_that_contradict_themselves() {
    let replaced = |bytes: &[u8], from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).expect("what is replaced");
        let mut bytes = bytes.to_vec();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let rows = Command::HostStatus(name());
    let row = |from, to| problem(&rows, &replaced(HOST_STATUS, from, to));
    assert_eq!(
        row(" timestamp=722", " timestamp=721"),
        Garbage::Contradiction("the two timestamps of a host")
    );
    assert_eq!(row("owner_id=1", "owner_id=x"), Garbage::Value("owner_id"));
    assert_eq!(row("last_live=725", "last_check=72"), Garbage::Twice("last_check"));
    assert_eq!(row("io_timeout=", "io_timeouts"), Garbage::Pairs);
    assert_eq!(row("owner_name=member-01", "owner-name=member-01"), Garbage::Missing("owner_name"));
    assert_eq!(row("last_req=0 ", "last_req=0\0"), Garbage::TextEnd);

    let status = |from, to| problem(&Command::Status, &replaced(STATUS, from, to));
    assert_eq!(status("list=spaces", "list=spacex"), Garbage::Value("list"));
    assert_eq!(
        status("io_timeout=1 sector_size=512 ", "io_timeout=65536 sector_si=5 "),
        Garbage::Value("io_timeout")
    );
    assert_eq!(status("space_dead=0", "space_deaf=0"), Garbage::Missing("space_dead"));
    assert_eq!(status("lvm_labvg", "lvm_labvh"), Garbage::Contradiction("the two names of a lockspace"));
    assert_eq!(status("monotime=728", "monotime=7.8"), Garbage::Value("monotime"));

    let mut other_kind = HOST_STATUS.to_vec();
    other_kind[32] = 4;
    assert_eq!(problem(&rows, &other_kind), Garbage::Kind(4));
    other_kind[32] = 2;
    assert!(matches!(problem(&rows, &other_kind), Garbage::Contradiction(_)));
    let mut no_text = HOST_STATUS.to_vec();
    no_text[32 + 72..32 + 76].fill(0);
    assert_eq!(problem(&rows, &no_text), Garbage::TextLength(0));
    no_text[32 + 72..32 + 76].fill(0xff);
    assert_eq!(problem(&rows, &no_text), Garbage::TextLength(0xffff_ffff));
}

proptest! {
    #[test]
    fn decoding_never_panics(which in 0..4_usize, bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let (command, recorded) = &commands()[which];
        let _ = decode(command, &bytes);
        // Behind a good header, so that the records are reached.
        let behind: Vec<u8> = recorded[..32].iter().copied().chain(bytes).collect();
        let _ = decode(command, &behind);
    }

    #[test]
    fn decoding_what_was_damaged_never_panics(
        which in 0..4_usize,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<proptest::sample::Index>(),
    ) {
        let (command, recorded) = &commands()[which];
        let mut bytes = recorded.to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode(command, &bytes);
        bytes.truncate(cut.index(recorded.len() + 1));
        let _ = decode(command, &bytes);
    }
}
