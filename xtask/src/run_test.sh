#!/bin/sh
# Runs a test program. The tests of `it` wait for most of their time, so twice as many of them run at once.
#
# Some tests call cargo, and what that compiles is not for clippy.
case "$1" in
*/it-*) export RUST_TEST_THREADS=$((RUST_TEST_THREADS * 2)) ;;
esac
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
exec "$@"
