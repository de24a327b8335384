#!/bin/sh
# rustc to which a warning is an error. As a wrapper of the crates of the workspace it does not build their dependencies
# again, as RUSTFLAGS would.
exec "$@" -D warnings
