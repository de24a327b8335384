//! What the attribute says to those who use it wrongly; what it does for the others is in `pass`.
//!
//! The messages are those of the toolchain in `rust-version`. After an intended change run with
//! `TRYBUILD=overwrite` and read the difference.

#[test]
fn wrong_uses_are_refused() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
