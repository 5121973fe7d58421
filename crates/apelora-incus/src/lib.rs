//! The part of the Incus API that fencing and recovery need, and nothing else.
//!
//! Written for Incus 6.0.4, over HTTPS or over the server's Unix socket. `tests/data/incus/README.md` says what each
//! answer means and how it was found out; its recordings are the tests of this crate.
//!
//! # What is spoken
//!
//! | Call | Request | Largest answer |
//! |---|---|---|
//! | [`Client::server`] | `GET /1.0` | 1 MiB |
//! | [`Client::members`] | `GET /1.0/cluster/members?recursion=1` | 8 MiB |
//! | [`Client::view`] | the two above, over one connection | |
//! | [`Client::member_state`] | `GET /1.0/cluster/members/{name}/state` | 1 MiB |
//! | [`Client::instances`] | `GET /1.0/instances?recursion=1&all-projects=true` | 64 MiB |
//! | [`Client::instances_in_full`] | `GET /1.0/instances?recursion=2&all-projects=true` | 64 MiB |
//! | [`Client::instance`] | `GET /1.0/instances/{name}?project={project}` | 1 MiB |
//! | [`Client::pools`] | `GET /1.0/storage-pools?recursion=1` | 8 MiB |
//! | [`Client::move_instance`] | `POST /1.0/instances/{name}?project={project}&target={member}` | 1 MiB |
//! | [`Client::start_instance`] | `PUT /1.0/instances/{name}/state?project={project}` with `start` | 1 MiB |
//! | [`Client::wait`] | `GET {operation}/wait?timeout={seconds}`, `GET {operation}` | 1 MiB |
//!
//! No other request can be expressed: nothing here stops, deletes, evacuates, restores or configures. The recorded
//! instances take about 2 KB each in a list; 64 MiB hold ten thousand of three times that size, and a larger list is
//! refused and named as such. Large answers are read off the runtime's threads.
//!
//! # How
//!
//! * **One connection per client**, owned, kept, and opened again when the peer has closed it. A call waits for the
//!   one before it, within its own deadline; so whatever must not wait for a slow list or for a running operation
//!   gets a client of its own ([`Client::another`]).
//! * **Who is believed**: a cluster's own certificate is self-signed and names one host, whatever member answers, so
//!   it is pinned ([`apelora_http::Trust::pinned_leaf_file`]), and the peer must prove that it has its key. TLS 1.3
//!   is what Incus speaks. The own certificate ([`apelora_http::ClientIdentity`]) is shown to who is believed and
//!   asks. No certificate tells members apart: who answers is [`Server::name`], by its own word.
//! * **Each call has an absolute deadline**, which includes waiting for the connection, name resolution, TLS and
//!   every byte.
//! * **A read** is sent once more, on a new connection, when the kept one turned out to be closed. **A move or a
//!   start** is sent once more only when not a byte of it had left. Nothing else is ever repeated.
//! * **An answer is judged by its `type`** (section 1 of the contract); the HTTP status must agree with it, except
//!   for `/wait`, where it is always 200 and says nothing.
//! * **Unknown words stay text** (the status of a member, the type of an instance, the driver of a pool, the type of
//!   a device): what they permit is the caller's to decide, and what is named here ([`Pool::is_shared`],
//!   [`Device::tie`]) takes the unknown as forbidden.
//! * **Fields are required** as section 1 of the contract names them. `null` is taken where it says so: an instance
//!   whose member is gone has no configuration, which is [`Instance::config`] without a value and never an empty one.
//!   An empty list may be `null`, as Go writes it. Repeated keys among the ones that are read are refused.

mod ask;
mod client;
mod device;
mod envelope;
mod error;
mod instance;
mod link;
mod member;
mod operation;
mod pool;
mod server;
mod strict;
mod url;

pub use client::Client;
pub use device::{Device, Tie};
pub use error::{IncusError, NameProblem, Problem, Refusal};
pub use instance::{Autostart, Instance, InstanceConfig};
pub use member::{Member, MemberResources};
pub use operation::{Ended, OperationId};
pub use pool::Pool;
pub use server::{HealingSetting, Server, View};
pub use url::{UrlError, endpoint};
