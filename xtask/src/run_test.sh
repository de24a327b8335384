#!/bin/sh
# Runs a test program. The tests of `it` wait for most of their time, so twice as many of them run at once.
#
# In CI, those that need a database or a browser run, too.
#
# Some tests call cargo, and what that compiles is not for clippy.
case "$1" in
*/it-*) export RUST_TEST_THREADS=$((RUST_TEST_THREADS * 2)) ;;
*/databases-*) [ -z "$WITH_DATABASES" ] || set -- "$@" --include-ignored ;;
*/browser-*) [ -z "$AXE_JS" ] || set -- "$@" --include-ignored ;;
esac
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
exec "$@"
