//! Waiting for an operation: what its end is, and what is only not known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_http::HttpError;
use apelora_incus::{Ended, IncusError, OperationId, Problem, Refusal};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bodies::{envelope, error_body};
use crate::listed;
use crate::peer::{Peer, Reply, answer, error, piped, sync, whole};

const UUID: &str = "95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d";

fn operation(code: u16, err: &str) -> Value {
    let status = match code {
        103 => "Running",
        200 => "Success",
        401 => "Cancelled",
        _ => "Failure",
    };
    json!({"id": UUID, "class": "task", "status": status, "status_code": code, "err": err, "location": "m1"})
}

async fn wait(peer: &Arc<Peer>, seconds: u64) -> Result<Ended, IncusError> {
    let id = OperationId::parse(&format!("/1.0/operations/{UUID}")).unwrap();
    piped(peer).wait(&id, Instant::now() + Duration::from_secs(seconds)).await
}

fn waits(path: &str) -> bool {
    path.contains("/wait?")
}

/// The server answers every wait with `wait`, and the question for the operation with `itself`.
fn peer(wait: (u16, Value), itself: (u16, Value)) -> Arc<Peer> {
    Peer::new(move |seen| {
        let (status, body) = if waits(&seen.path) { &wait } else { &itself };
        answer(*status, body)
    })
}

#[tokio::test(start_paused = true)]
async fn an_operation_ends_as_itself_says() {
    let shown = |code, err| (200, envelope(&operation(code, err)));
    let gone = || (404, error_body(404, "Operation not found"));
    let failed = |code, text: &str| Ended::Failed { code, text: text.to_owned() };
    for (wait_answer, itself, expected) in [
        (shown(200, ""), gone(), Ended::Success),
        (shown(400, "no room"), gone(), failed(400, "no room")),
        (shown(401, ""), gone(), failed(401, "Cancelled")),
        ((200, error_body(500, "locked")), shown(400, "locked"), failed(500, "locked")),
        // A pool that is not found, not an operation.
        (
            (200, error_body(404, "pool not found")),
            shown(400, "pool not found"),
            failed(404, "pool not found"),
        ),
        // The wait's time was over just before the end.
        ((200, error_body(500, "context deadline exceeded")), shown(200, ""), Ended::Success),
        (gone(), gone(), Ended::Unknown),
        ((200, error_body(404, "Operation not found")), gone(), Ended::Unknown),
        // It failed, or its member died, and was forgotten before it could be asked for: perhaps it was done.
        ((200, error_body(500, "locked")), gone(), Ended::Unknown),
    ] {
        let peer = peer(wait_answer.clone(), itself);
        assert_eq!(wait(&peer, 60).await.unwrap(), expected, "{wait_answer:?}");
    }
}

/// Its HTTP status was sent before anything was known.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_wait_says_nothing() {
    let done = (500, envelope(&operation(200, "")));
    assert_eq!(wait(&peer(done, (404, error_body(404, "x"))), 60).await.unwrap(), Ended::Success);
}

#[tokio::test(start_paused = true)]
async fn waiting_goes_on_in_slices_until_the_deadline() {
    // The server waits as long as it is told to, and then says that time is over.
    let peer = Peer::new(|seen| match seen.path.split_once("timeout=") {
        Some((_, seconds)) => {
            let body = error_body(500, "context deadline exceeded");
            let last = whole(200, "application/json", body.to_string().as_bytes());
            Reply::Later(Duration::from_secs(seconds.parse().unwrap()), last)
        }
        None => sync(&operation(103, "")),
    });
    let start = Instant::now();
    let late = wait(&peer, 100).await.unwrap_err();
    assert!(matches!(late.problem, Problem::StillRunning), "{late}");
    assert!(late.may_have_been_sent());
    assert!(start.elapsed() <= Duration::from_secs(100), "{:?}", start.elapsed());
    let slices: Vec<String> = peer.lines().into_iter().filter(|line| waits(line)).collect();
    let seconds: Vec<u64> =
        slices.iter().map(|line| line.split_once("timeout=").unwrap().1.parse().unwrap()).collect();
    assert_eq!(seconds, [30, 30, 30, 9]);
}

/// Too late to wait, but not to look.
#[tokio::test(start_paused = true)]
async fn with_no_time_to_wait_the_operation_is_looked_at() {
    let shown = |code| (200, envelope(&operation(code, "")));
    for (itself, expected) in [
        (shown(200), "Ok(Success)"),
        (shown(103), "Err(StillRunning)"),
        ((404, error_body(404, "Operation not found")), "Ok(Unknown)"),
    ] {
        let peer = peer(shown(103), itself);
        let told = wait(&peer, 1).await.map_err(|why| why.problem);
        assert_eq!(format!("{told:?}"), expected);
        assert_eq!(peer.lines(), [format!("GET /1.0/operations/{UUID}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_wait_is_not_asked_without_end() {
    let start = Instant::now();
    let peer = peer((200, envelope(&operation(103, ""))), (200, envelope(&operation(103, ""))));
    assert!(matches!(wait(&peer, 60).await.unwrap_err().problem, Problem::StillRunning));
    assert!(peer.seen().len() <= 60, "{}", peer.seen().len());
    assert!(start.elapsed() <= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_after_the_slice() {
    let start = Instant::now();
    let peer = Peer::new(|_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n".to_vec()));
    let late = wait(&peer, 600).await.unwrap_err();
    assert!(matches!(late.problem, Problem::Http(HttpError::Deadline { .. })), "{late}");
    assert_eq!(start.elapsed(), Duration::from_secs(35));
}

#[tokio::test(start_paused = true)]
async fn what_the_server_cannot_say_is_an_error_and_no_end() {
    let other = json!({"id": "00000000-0000-0000-0000-000000000000", "status": "Success", "status_code": 200, "err": ""});
    let gone = || (404, error_body(404, "Operation not found"));
    for (wait_answer, itself, expected) in [
        ((200, envelope(&other)), gone(), "not understood: metadata.id: it is another operation"),
        ((200, error_body(500, "x")), (200, envelope(&other)), "not understood: metadata.id"),
        ((200, error_body(500, "x")), (503, error_body(503, "no leader")), "Failed 503: no leader"),
        ((200, envelope(&json!({"id": UUID}))), gone(), "not understood: metadata: missing field `status`"),
        ((403, error_body(403, "not authorized")), gone(), "Untrusted 403: not authorized"),
    ] {
        let peer = peer(wait_answer, itself);
        let told = listed::error(&wait(&peer, 60).await.unwrap_err());
        assert!(told.starts_with(expected), "{told}");
    }
}

/// A wait whose connection breaks is made once more; then the operation may be gone, which is not known to be
/// anything.
#[tokio::test(start_paused = true)]
async fn a_broken_wait_is_repeated() {
    let count = AtomicU64::new(0);
    let peer = Peer::new(move |seen| match (waits(&seen.path), count.fetch_add(1, Ordering::Relaxed)) {
        (true, 0) => error(500, "context deadline exceeded"),
        (false, 1) => sync(&operation(103, "")),
        (true, 2) => Reply::Close(Vec::new()),
        _ => error(404, "Operation not found"),
    });
    assert_eq!(wait(&peer, 60).await.unwrap(), Ended::Unknown);
    assert_eq!(peer.connections(), 2);
    let refused = Peer::new(|_| error(403, "Certificate is restricted"));
    assert_eq!(wait(&refused, 60).await.unwrap_err().refusal(), Some(Refusal::Restricted));
}
