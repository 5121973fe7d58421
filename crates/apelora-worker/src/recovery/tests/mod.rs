//! Recovery against the simulated cluster, in virtual time and without a network.

mod course;
mod hostile;
mod killed;
mod lab;
mod nights;
mod permit;
mod stored;
mod trouble;
