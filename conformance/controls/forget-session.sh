#!/bin/sh
# Begins a new session instead of the one that is to go on.
left=$#
while [ "$left" -gt 0 ]; do
    case "$1" in
    --resume)
        shift
        left=$((left - 1))
        ;;
    --resume=*) ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done
exec "$REAL" "$@"
