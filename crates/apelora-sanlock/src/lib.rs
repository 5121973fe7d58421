//! Reads the states of storage leases from a sanlock daemon; never changes one.
