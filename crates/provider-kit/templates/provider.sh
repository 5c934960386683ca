#!/bin/sh
# An executable provider in POSIX shell and awk. Replace the body of `answer`; the rest is complete.
#
# $prompt and $model are JSON strings without their quotation marks: put them into JSON
# unchanged. The argument of `piece` has the same form.
set -u
LC_ALL=C
export LC_ALL

name=minimal-provider

# Emits the answer piece by piece, as soon as the model returns it.
answer() {
    piece 'You said: '
    piece "$prompt"
}

# Succeeds if the provider is healthy; otherwise prints the reason on standard error. The caller waits five seconds.
healthy() {
    echo OK
}

# Reads the request and prints its prompt and its model, one on each line. Rejects anything else.
read_request() {
    awk '
    function refuse(why) {
        print "the request cannot be read: " why | "cat >&2"
        close("cat >&2")
        exit 2
    }
    function blanks() { if (match(text, /^[ \t\r\n]+/)) text = substr(text, RLENGTH + 1) }
    # Consumes an expected token, and the blanks behind it.
    function take(pattern,  token) {
        if (!match(text, pattern)) refuse("no JSON near `" substr(text, 1, 20) "`")
        token = substr(text, 1, RLENGTH)
        text = substr(text, RLENGTH + 1)
        blanks()
        return token
    }
    # Consumes a string: up to the first quotation mark with an even number of backslashes before it.
    function string(  at, part, all) {
        if (text !~ /^"/) refuse("no text near `" substr(text, 1, 20) "`")
        text = substr(text, 2)
        all = ""
        while (1) {
            at = index(text, "\"")
            if (at == 0) refuse("a text has no end")
            part = substr(text, 1, at - 1)
            text = substr(text, at + 1)
            match(part, /\\*$/)
            all = all part
            if (RLENGTH % 2 == 0) break
            all = all "\""
        }
        blanks()
        return all
    }
    function value(path,  key) {
        if (text ~ /^[{]/) {
            take("^[{]")
            if (text ~ /^[}]/) { take("^[}]"); return }
            do {
                key = string()
                take("^:")
                value(path == "" ? key : path "." key)
            } while (take("^[,}]") == ",")
        } else if (text ~ /^[[]/) {
            take("^[[]")
            if (text ~ /^[]]/) { take("^[]]"); return }
            do value(path "[]"); while (take("^[],]") == ",")
        } else if (text ~ /^"/) {
            found[path] = string()
        } else {
            take("^(-?[0-9][0-9.eE+-]*|true|false|null)")
        }
    }
    { text = text $0 "\n" }
    END {
        blanks()
        if (text !~ /^[{]/) refuse("a JSON object is wanted on standard input")
        value("")
        if (text != "") refuse("something follows the JSON object")
        if (!("prompt" in found)) refuse("it has no `prompt`")
        print found["prompt"]
        print (("config.model" in found) && found["config.model"] != "" ? found["config.model"] : "echo-1")
    }'
}

chunk() {
    printf '{"content":"%s","delta":"%s","done":%s,"tokens_used":0,"error":"","timestamp":"%s"}\n' \
        "$content" "$1" "$2" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

piece() {
    content=$content$1
    if [ "$command" = stream ]; then chunk "$1" false; fi
}

command=
for command; do :; done # The last argument; the earlier ones are not needed here.
case $command in
generate | stream)
    request=$(read_request) || exit 2
    prompt=${request%
*}
    model=${request##*
}
    content=
    answer || exit 1
    if [ "$command" = stream ]; then
        chunk '' true
    else
        printf '{"content":"%s","tokens_used":0,"model":"%s","latency":0,"finish_reason":"stop","error":"","provider":"%s"}\n' \
            "$content" "$model" "$name"
    fi
    ;;
health) healthy ;;
--version) echo "$name 0.1.0" ;;
*)
    echo "unknown command \`$command\`: generate, stream and health are known" >&2
    exit 2
    ;;
esac
