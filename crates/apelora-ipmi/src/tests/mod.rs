//! Tests of the machines and of the driver. Those named `contract_*` replay recorded data.

mod bmc;
mod captures;
mod data;
mod driver;
mod limits;
mod model;
mod net;
mod properties;
mod vectors;
