//! Tests of the machines and of the driver. Those named `contract_*` replay recorded data.

mod captures;
mod data;
mod vectors;
