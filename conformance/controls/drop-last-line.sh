#!/bin/sh
# Loses the last line of the output.
case "$1" in --version | --help) exec "$REAL" "$@" ;; esac
# Not a pipeline: its shell dies of a signal and leaves the program the short grace of a sweep. This one passes the
# signal on and waits, so that the program has all the time of a stop.
pipe=$(mktemp -u)
mkfifo "$pipe"
sed '$d' <"$pipe" &
# A program in the background would otherwise read nothing.
exec 3<&0
"$REAL" "$@" <&3 >"$pipe" &
real=$!
trap 'kill -INT "$real"' INT
trap 'kill -TERM "$real"' TERM
# A signal interrupts the wait.
while :; do
    wait "$real"
    code=$?
    kill -0 "$real" 2>/dev/null || break
done
rm -f "$pipe"
wait
exit "$code"
