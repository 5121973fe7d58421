//! The leader: the same answers as the machine's own store in memory, on every engine, and nobody else's writes.

mod choice;
mod entries;
mod model;
mod network;
mod pages;
mod permits;
mod races;
mod rig;
mod rows;
mod storm;
