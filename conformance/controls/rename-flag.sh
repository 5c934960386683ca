#!/bin/sh
# Calls an option otherwise, and refuses the name that it had.
for argument; do
    case "$argument" in
    --append-system-prompt)
        echo "error: unknown option '--append-system-prompt'" >&2
        exit 1
        ;;
    esac
done
if [ "$1" = --help ]; then
    "$REAL" "$@" | sed 's/--append-system-prompt/--add-to-system-prompt/g'
    exit
fi
exec "$REAL" "$@"
