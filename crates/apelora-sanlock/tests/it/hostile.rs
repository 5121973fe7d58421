//! Daemons that are absent, stopped, wrong or hostile. Nothing of what they send becomes a reading, and each ends in time.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use apelora_sanlock::{
    CALL_LIMIT, Command, Daemon, Garbage, LockspaceName, Membership, Reading, SanlockError,
};
use tokio::time::Instant;

use crate::peer::{self, Act, HOST_STATUS, HOSTS, LOCKSPACES, Peer, STATUS};

const SPACE: &str = "lvm_vg0";

const DAEMON: &str = "our_host_name=a use_watchdog=1 monotime=1000 version_str=4.0.0 new_key=1";

fn space_text(list: &str) -> String {
    format!(
        "list={list} io_timeout=10 host_generation=3 renew_fail=0 space_dead=0 killing_pids=0 corrupt_result=0 \
         renewal_last_result=1 renewal_last_success=990"
    )
}

fn space_state(name: &str, host_id: u64, list: &str) -> Vec<u8> {
    let mut record = peer::state(3, 0, host_id, name, &space_text(list));
    record.extend(peer::lockspace(name, host_id, 0));
    record
}

fn row(id: u32, timestamp: u64) -> Vec<u8> {
    let text = format!(
        "last_check=995 last_live=990 last_req=0 owner_id={id} owner_generation=1 timestamp={timestamp} io_timeout=10 \
         owner_name=host-{id}"
    );
    peer::state(5, id, timestamp, "", &text)
}

/// What a well daemon says.
fn well(command: u32) -> Vec<u8> {
    match command {
        LOCKSPACES => peer::counted(command, &[peer::lockspace(SPACE, 1, 0)]),
        HOSTS => peer::counted(command, &[peer::host(1, 1, 500, 10, 3), peer::host(2, 1, 700, 10, 3)]),
        HOST_STATUS => peer::streamed(command, &[row(1, 500), row(2, 700)]),
        STATUS => {
            peer::streamed(command, &[peer::state(1, 0, 0, "a", DAEMON), space_state(SPACE, 1, "spaces")])
        }
        other => panic!("command {other}"),
    }
}

/// A daemon that is well but for one command.
fn ill(command: u32, act: Act) -> Peer {
    Peer::start(move |asked, _| if asked == command { act.clone() } else { Act::Say(well(asked)) })
}

async fn read(peer: &Peer) -> Result<Reading, SanlockError> {
    Daemon::new(peer.socket()).read(Instant::now() + Duration::from_secs(60)).await
}

/// The error about the one lockspace.
async fn about_lockspace(peer: &Peer) -> SanlockError {
    let reading = read(peer).await.unwrap();
    assert!(reading.lockspaces.is_empty(), "{reading:?}");
    let [unreadable] = &reading.unreadable[..] else { panic!("{reading:?}") };
    unreadable.error.clone()
}

fn command(number: u32) -> Command {
    let name = LockspaceName::new(SPACE).unwrap();
    match number {
        STATUS => Command::Status,
        HOST_STATUS => Command::HostStatus(name),
        LOCKSPACES => Command::Lockspaces,
        _ => Command::Hosts(name),
    }
}

const ALL: [u32; 4] = [LOCKSPACES, HOSTS, HOST_STATUS, STATUS];

#[tokio::test]
async fn a_well_daemon_is_read_with_one_connection_for_each_command() {
    let peer = Peer::start(|command, name| {
        assert!(name == if matches!(command, HOSTS | HOST_STATUS) { SPACE.as_bytes() } else { b"" });
        Act::Say(well(command))
    });
    let reading = read(&peer).await.unwrap();
    assert_eq!(peer.asked(), ALL, "the hosts before the daemon's own state");
    assert!(reading.daemon.use_watchdog);
    assert_eq!(reading.daemon.pid, i32::try_from(std::process::id()).ok());
    let [space] = &reading.lockspaces[..] else { panic!("{reading:?}") };
    assert_eq!(space.hosts.iter().map(|h| h.owner_name.as_str()).collect::<Vec<_>>(), ["host-1", "host-2"]);
    assert!(reading.unreadable.is_empty());
}

#[tokio::test]
async fn absent_daemons_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let by = || Instant::now() + Duration::from_secs(5);
    let socket = folder.path().join("sanlock.sock");
    let error = Daemon::new(&socket).read(by()).await.unwrap_err();
    assert_eq!(error, SanlockError::NoSocket { socket: socket.clone() });
    let text = error.to_string();
    assert!(
        text.contains(&socket.display().to_string()) && text.contains("systemctl start sanlock"),
        "{text}"
    );

    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let error = Daemon::new(&socket).read(by()).await.unwrap_err();
    assert_eq!(error, SanlockError::NoListener { socket: socket.clone() });

    let too_long = folder.path().join("x".repeat(120));
    let error = Daemon::new(&too_long).read(by()).await.unwrap_err();
    assert!(matches!(error, SanlockError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn a_socket_that_may_not_be_used() {
    let peer = Peer::start(|command, _| Act::Say(well(command)));
    std::fs::set_permissions(peer.socket(), std::fs::Permissions::from_mode(0o000)).unwrap();
    match read(&peer).await {
        Err(error) => {
            assert_eq!(error, SanlockError::Permission { socket: peer.socket() });
            assert!(error.to_string().contains("group `sanlock`"));
        }
        // Root may use every socket.
        Ok(reading) => assert_eq!(reading.lockspaces.len(), 1),
    }
}

#[tokio::test]
async fn what_ends_too_early_is_refused() {
    for number in ALL {
        let whole = well(number);
        for end in [0, 1, 31, 32, 33, whole.len() - 1] {
            let peer = ill(number, Act::Say(whole[..end].to_vec()));
            let reading = read(&peer).await;
            let read = reading.as_ref().is_ok_and(|r| r.lockspaces.len() == 1);
            assert!(!read, "{} cut at {end}: {reading:?}", command(number));
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_is_refused_at_once() {
    for number in ALL {
        // It stays open: the reader does not wait for its end.
        let peer = ill(number, Act::SayAndHold(b"HTTP/1.1 400 Bad Request\r\n\r\n........".to_vec()));
        let problem = Garbage::Magic;
        let expected = SanlockError::Garbage { command: command(number), problem };
        let error = match number {
            HOSTS | HOST_STATUS => about_lockspace(&peer).await,
            _ => read(&peer).await.unwrap_err(),
        };
        assert_eq!(error, expected);
    }
    let mut newer = well(LOCKSPACES);
    newer[4..8].copy_from_slice(&0x0001_0002_u32.to_ne_bytes());
    let error = read(&ill(LOCKSPACES, Act::SayAndHold(newer))).await.unwrap_err();
    assert_eq!(error, SanlockError::Version { major: 1, minor: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_silent_daemon_ends_with_the_call() {
    for number in ALL {
        for act in [Act::SayAndHold(Vec::new()), Act::SayAndHold(well(number)), Act::Drip(well(number))] {
            let peer = ill(number, act.clone());
            let begun = Instant::now();
            let error = read(&peer).await.unwrap_err();
            assert_eq!(error, SanlockError::Deadline { command: command(number) }, "{act:?}");
            assert_eq!(begun.elapsed().as_secs(), CALL_LIMIT.as_secs());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_caller_ends_it_earlier() {
    let peer = ill(STATUS, Act::SayAndHold(Vec::new()));
    let begun = Instant::now();
    let by = begun + Duration::from_millis(500);
    let error = Daemon::new(peer.socket()).read(by).await.unwrap_err();
    assert_eq!(error, SanlockError::Deadline { command: Command::Status });
    assert_eq!(begun.elapsed().as_millis(), 500);
}

#[tokio::test]
async fn a_daemon_that_is_stopped_takes_connections_for_a_while_only() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sanlock.sock");
    let listener = tokio::net::UnixSocket::new_stream().unwrap();
    listener.bind(&socket).unwrap();
    let _never_accepts = listener.listen(4).unwrap();
    let by = || Instant::now() + Duration::from_millis(50);
    let error = Daemon::new(&socket).read(by()).await.unwrap_err();
    assert_eq!(error, SanlockError::Deadline { command: Command::Lockspaces });

    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::net::UnixStream::connect(&socket).await {
        waiting.push(stream);
        assert!(waiting.len() < 100, "its queue has an end");
    }
    let error = Daemon::new(&socket).read(by()).await.unwrap_err();
    assert_eq!(error, SanlockError::Busy { socket });
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    for number in ALL {
        let peer = ill(number, Act::Endless(well(number)));
        let error = read(&peer).await.unwrap_err();
        assert!(
            matches!(&error, SanlockError::TooLong { command: c, .. } if *c == command(number)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn more_than_was_announced_is_refused() {
    let mut longer = well(LOCKSPACES);
    longer.push(0);
    let error = read(&ill(LOCKSPACES, Act::Say(longer))).await.unwrap_err();
    assert_eq!(error, SanlockError::Garbage { command: Command::Lockspaces, problem: Garbage::Long(1) });
}

#[tokio::test]
async fn a_lockspace_that_cannot_be_read_is_named() {
    let name = SPACE.to_owned();
    let refusing = |number: u32, result: i32| ill(number, Act::Say(peer::header(number, 32, result, 0)));
    assert_eq!(about_lockspace(&refusing(HOSTS, -11)).await, SanlockError::NotReady { name: name.clone() });
    assert_eq!(about_lockspace(&refusing(HOSTS, -2)).await, SanlockError::NoLockspace { name: name.clone() });
    assert_eq!(
        about_lockspace(&refusing(HOST_STATUS, -28)).await,
        SanlockError::NoLockspace { name: name.clone() }
    );
    let error = about_lockspace(&refusing(HOSTS, -12)).await;
    assert_eq!(error, SanlockError::Refused { command: command(HOSTS), result: -12 });

    for (flags, membership) in [(1, Membership::Joining), (2, Membership::Leaving)] {
        let peer = ill(LOCKSPACES, Act::Say(peer::counted(LOCKSPACES, &[peer::lockspace(SPACE, 1, flags)])));
        assert_eq!(about_lockspace(&peer).await, SanlockError::NotJoined { name: name.clone(), membership });
        assert_eq!(peer.asked(), [LOCKSPACES, STATUS], "its hosts are not asked for");
    }
    let daemon = peer::state(1, 0, 0, "a", DAEMON);
    let leaving = peer::streamed(STATUS, &[daemon.clone(), space_state(SPACE, 1, "rem")]);
    let membership = Membership::Leaving;
    assert_eq!(
        about_lockspace(&ill(STATUS, Act::Say(leaving))).await,
        SanlockError::NotJoined { name: name.clone(), membership }
    );
    let gone = peer::streamed(STATUS, std::slice::from_ref(&daemon));
    assert_eq!(
        about_lockspace(&ill(STATUS, Act::Say(gone))).await,
        SanlockError::NoLockspace { name: name.clone() }
    );
    let other_id = peer::streamed(STATUS, &[daemon.clone(), space_state(SPACE, 9, "spaces")]);
    assert_eq!(
        about_lockspace(&ill(STATUS, Act::Say(other_id))).await,
        SanlockError::Unsteady { name: name.clone() }
    );
    let twice =
        peer::streamed(STATUS, &[daemon, space_state(SPACE, 1, "spaces"), space_state(SPACE, 1, "rem")]);
    assert_eq!(
        about_lockspace(&ill(STATUS, Act::Say(twice))).await,
        SanlockError::Ambiguous { name: name.clone() }
    );
    let twice = peer::counted(LOCKSPACES, &[peer::lockspace(SPACE, 1, 0), peer::lockspace(SPACE, 1, 2)]);
    assert_eq!(about_lockspace(&ill(LOCKSPACES, Act::Say(twice))).await, SanlockError::Ambiguous { name });
}

#[tokio::test]
async fn rows_that_do_not_fit_their_states_are_read_again_and_then_refused() {
    let peer = ill(HOST_STATUS, Act::Say(peer::streamed(HOST_STATUS, &[row(1, 500)])));
    assert_eq!(about_lockspace(&peer).await, SanlockError::Unsteady { name: SPACE.into() });
    assert_eq!(peer.asked().iter().filter(|c| **c == HOST_STATUS).count(), 3);

    // A renewal between the two answers, once.
    let late = std::sync::atomic::AtomicBool::new(true);
    let peer = Peer::start(move |command, _| {
        if command == HOST_STATUS && late.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return Act::Say(peer::streamed(HOST_STATUS, &[row(1, 500), row(2, 720)]));
        }
        Act::Say(well(command))
    });
    assert_eq!(read(&peer).await.unwrap().lockspaces.len(), 1);
    assert_eq!(peer.asked(), [LOCKSPACES, HOSTS, HOST_STATUS, HOSTS, HOST_STATUS, STATUS]);
}

#[tokio::test]
async fn one_lockspace_that_is_ill_hides_no_other() {
    let peer = Peer::start(|command, name| match (command, name) {
        (LOCKSPACES, _) => {
            let spaces = [peer::lockspace("ill", 1, 0), peer::lockspace(SPACE, 1, 0)];
            Act::Say(peer::counted(LOCKSPACES, &spaces))
        }
        (HOSTS, b"ill") => Act::Say(peer::header(HOSTS, 32, -11, 0)),
        (STATUS, _) => {
            let records = [
                peer::state(1, 0, 0, "a", DAEMON),
                space_state("ill", 1, "spaces"),
                space_state(SPACE, 1, "spaces"),
            ];
            Act::Say(peer::streamed(STATUS, &records))
        }
        _ => Act::Say(well(command)),
    });
    let reading = read(&peer).await.unwrap();
    assert_eq!(reading.lockspaces.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), [SPACE]);
    assert_eq!(reading.unreadable.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["ill"]);
}
