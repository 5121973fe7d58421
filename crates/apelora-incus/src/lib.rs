//! The part of the Incus API that fencing and recovery need.
