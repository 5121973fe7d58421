//! `apelora demo` and what it does to its cluster.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

/// What the demo does.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Demo {
    #[command(subcommand)]
    pub(crate) verb: Option<DemoVerb>,
    /// The loopback address of the API [default: 127.0.0.1:6385, or a free port when that one is taken]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback)]
    pub(crate) listen: Option<SocketAddr>,
}

/// What can happen to a member of the demo's cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum DemoVerb {
    /// A server of the running demo crashes.
    ///
    /// Its power stays on, so nobody can know that it writes nothing any more before it is switched off.
    Break(BreakMember),
    /// A server of the running demo freezes.
    ///
    /// Nothing on it answers, and it could go on at any moment.
    Hang(OneMember),
    /// A server of the running demo loses the cluster's network and runs on.
    ///
    /// Its instances still write: the case in which restarting them elsewhere without switching it off destroys data.
    Cut(OneMember),
    /// A server of the running demo comes back.
    Heal(OneMember),
}

/// A member, and which demo.
#[derive(Debug, Args)]
pub(crate) struct OneMember {
    /// The server: s1, s2, s3 or s4
    pub(crate) member: String,
    /// The port of the demo's API [default: the demo that was started last]
    #[arg(long, value_name = "PORT")]
    pub(crate) demo: Option<u16>,
}

/// `demo break`.
#[derive(Debug, Args)]
pub(crate) struct BreakMember {
    #[command(flatten)]
    pub(crate) whom: OneMember,
    /// Its power is gone as well: its management controller, which is fed from elsewhere, reads Off
    #[arg(long)]
    pub(crate) lose_power: bool,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "give ADDRESS:PORT with a numeric address, such as 127.0.0.1:0".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the demo lets everybody in, so it serves on a loopback address only, such as 127.0.0.1:0"
            .to_owned())
    }
}
