#!/bin/sh
# rustc to which a warning is an error, or clippy for crates without a feature; `CLIPPY` is its program. As a wrapper of the
# crates of the workspace it does not build their dependencies again, as RUSTFLAGS would.
case " $* " in
*' feature="'*) exec "$@" -D warnings ;;
*) exec "$CLIPPY" "$@" -D warnings ;;
esac
