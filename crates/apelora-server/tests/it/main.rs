//! The server as clients meet it: a real listener on loopback over a real database.
//!
//! SQLite always; PostgreSQL and MariaDB when `APELORA_TEST_POSTGRES_URL` and `APELORA_TEST_MARIADB_URL` name servers.

// Every function here is a test or helps one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod all_entries;
mod auth;
mod client;
mod cloud;
mod coverage;
mod fields;
mod goldens;
mod history;
mod hostile;
mod lab;
mod large;
mod limits;
mod members;
mod members_rbac;
mod night;
mod nodes;
mod pages;
mod personas;
mod policies;
mod rbac;
mod scenarios;
mod scopes;
mod tls;
mod tokens;
mod trail;
mod typed;
