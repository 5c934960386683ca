#!/bin/sh
# Loses the last line of the output.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
"$REAL" "$@" | sed '$d'
