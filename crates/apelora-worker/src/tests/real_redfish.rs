//! Against real BMCs with Redfish: see [`super::real`]. Run by `scripts/suites/real-bmc` when hardware is given.

use super::real::Hardware;

#[tokio::test]
#[ignore = "needs real hardware: scripts/suites/real-bmc"]
async fn every_mapped_bmc_could_be_used() {
    let rows = Hardware::given().read_all("redfish").await;
    println!("{} BMCs can be used", rows.len());
}

/// Switches a server off.
#[tokio::test]
#[ignore = "needs real hardware, of which one server may be switched off: scripts/suites/real-bmc"]
async fn the_server_whose_uuid_is_repeated_is_switched_off() {
    Hardware::given().switch_off("redfish").await;
}
