#!/bin/sh
# Does not end when it is asked to, but only when it is killed.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
trap '' TERM INT HUP
# What runs in the background would else read nothing.
exec 3<&0
"$REAL" "$@" <&3 &
wait $!
code=$?
# The program was ended in its place; an interrupted wait looks the same.
[ "$code" -lt 128 ] || while :; do sleep 1; done
exit "$code"
