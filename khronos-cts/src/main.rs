//! Runs conformance suites against an ICD.
fn main() {}
