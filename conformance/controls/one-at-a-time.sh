#!/bin/sh
# A second process exits while the first one of the same case runs: the processes of a case share a directory for temporary files.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
exec flock --no-fork --nonblock --conflict-exit-code 1 "$TMPDIR/one" "$REAL" "$@"
