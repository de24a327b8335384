#!/bin/sh
# Installs a program, from the root of the workspace: install.sh NAME APT_PACKAGE BREW_PACKAGE. Asks before it uses sudo, where a person can answer.
set -eu
apt="sh xtask/src/install_package.sh $2"
if ! command -v apt-get >/dev/null; then
    test -n "$3" && command -v brew >/dev/null && exec brew install "$3"
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    exec $apt </dev/null
fi
if [ -z "${CI-}" ] && [ -t 0 ] && [ -t 2 ]; then
    printf '%s is not installed. Install it with `sudo apt-get`? [y/N] ' "$1" >&2
    read -r answer
    case $answer in
    y | Y | yes) exec sudo $apt </dev/null ;;
    *) exit 1 ;;
    esac
fi
# Fails where sudo would ask for a password.
exec sudo -n $apt </dev/null
