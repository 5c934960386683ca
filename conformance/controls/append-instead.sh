#!/bin/sh
# Adds a system prompt to its own one instead of replacing it.
left=$#
while [ "$left" -gt 0 ]; do
    case "$1" in
    --system-prompt) set -- "$@" --append-system-prompt ;;
    --system-prompt=*) set -- "$@" "--append-system-prompt=${1#--system-prompt=}" ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done
exec "$REAL" "$@"
