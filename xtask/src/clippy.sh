#!/usr/bin/env bash
# Clippy as a wrapper of rustc; `CLIPPY` is its program.
#
# The unit tests of lock-runtime run for a second. To optimize them, as the library for the other tests is, would take half a
# minute. The last level on the line counts.
#
# The large test program is often the last one: two processors compile it, in two pieces.
#
# Other shells drop variables whose names have a hyphen, such as cargo's `CARGO_BIN_EXE_lock-benches`.
case " $* " in
*" --crate-name lock_runtime "*" --test "*) set -- "$@" -C opt-level=0 ;;
*" --crate-name it "*) set -- "$@" -C codegen-units=2 ;;
esac
exec "$CLIPPY" "$@"
