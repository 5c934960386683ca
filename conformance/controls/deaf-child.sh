#!/bin/sh
# Starts a process that does not end when it is asked to, but only when it is killed.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
(
    trap '' TERM INT HUP
    exec sleep 300
) </dev/null >/dev/null 2>&1 &
deaf=$!
# What runs in the background would else read nothing.
exec 3<&0
"$REAL" "$@" <&3 &
real=$!
asked=
trap 'asked=yes; kill -INT "$real"' INT
trap 'asked=yes; kill -TERM "$real"' TERM
# A signal interrupts the wait.
while :; do
    wait "$real"
    code=$?
    kill -0 "$real" 2>/dev/null || break
done
# A program that exits by itself ends it too.
[ -n "$asked" ] || kill -KILL "$deaf"
exit "$code"
