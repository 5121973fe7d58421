//! Tests of the machines and of the driver. Those named `contract_*` replay recorded data.

mod bmc;
mod captures;
mod data;
mod model;
mod properties;
mod vectors;
