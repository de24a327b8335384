//! What the attribute says to those who use it wrongly, and what it does for the others.
//!
//! The messages are those of the toolchain in `rust-version`. After an intended change run with
//! `TRYBUILD=overwrite` and read the difference.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    cases.pass("pass/*.rs");
}
