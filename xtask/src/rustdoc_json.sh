#!/bin/sh
# rustdoc that may write JSON, which stable Rust calls unstable. For rustdoc alone: build scripts that read
# this variable would build every dependency again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
