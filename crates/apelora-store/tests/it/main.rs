//! The store on every engine: SQLite always, PostgreSQL and MariaDB when their servers are given.

// Every function here is a test or helps one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod backfill;
mod basics;
mod commit;
mod concurrency;
mod foreign_rows;
mod lab;
mod leader;
mod paging;
mod proxy;
mod retention;
mod schema;
mod texts;
mod trail;
