//! `contract_ipmi_captures`: exchanges between other clients and BMCs decode, verify and lead where they led.
