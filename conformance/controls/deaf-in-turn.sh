#!/bin/sh
# While a turn runs, the app server gets neither steers nor interrupts. Prompts arrive.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
sed -u -e '/"method":"turn\/steer"/d' -e '/"method":"turn\/interrupt"/d' | "$REAL" "$@"
