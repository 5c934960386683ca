#!/bin/sh
# Says every piece of text twice.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
"$REAL" "$@" | awk '{ print; fflush() } /"text_delta"/ { print; fflush() }'
