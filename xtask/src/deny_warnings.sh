#!/bin/sh
# rustc to which a warning is an error, or clippy for crates without a feature; `CLIPPY` is its program. As a wrapper of the
# crates of the workspace it does not build their dependencies again, as RUSTFLAGS would.
#
# Without debug assertions, as in a release build: the tests are compiled with them.
set -- "$@" -D warnings -C debug-assertions=off
case " $* " in
*' feature="'*) exec "$@" ;;
*) exec "$CLIPPY" "$@" ;;
esac
