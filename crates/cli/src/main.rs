//! The `vitalfew` command.
fn main() {}
