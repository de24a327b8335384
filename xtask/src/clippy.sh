#!/usr/bin/env bash
# Clippy as a wrapper of rustc; `CLIPPY` is its program.
#
# Unit tests run for a second. To optimize those of crates that are optimized for the other tests would take half a minute. The last
# level on the line counts.
#
# The large test program is often compiled last. In one piece, one processor would do that while another has nothing to do.
#
# Other shells drop variables whose names have a hyphen, such as cargo's `CARGO_BIN_EXE_lock-benches`.
case " $* " in
*" --crate-name lock_"*" --test "*) set -- "$@" -C opt-level=0 ;;
*" --crate-name it "*" codegen-units=1 "*) set -- "$@" -C codegen-units=2 ;;
esac
exec "$CLIPPY" "$@"
