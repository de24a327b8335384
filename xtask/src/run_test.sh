#!/bin/sh
# Runs a test program, or an example of the documentation, unless its name is one of those before `--`. What it compiles
# is not for clippy.
omitted=" "
while [ "$1" != -- ]; do
    omitted="$omitted$1 "
    shift
done
shift
# Cargo appends a dash and a hash.
program=${1##*/}
case "$omitted" in *" ${program%-*} "*) exit 0 ;; esac
exec env -u RUSTC_WORKSPACE_WRAPPER -u CLIPPY_ARGS "$@"
