//! Recovery against the simulated cluster, in virtual time and without a network.

mod course;
mod killed;
mod lab;
mod permit;
mod stored;
mod trouble;
