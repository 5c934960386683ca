#!/bin/sh
# An executable provider in POSIX shell and awk. Replace what `answer` does; everything else is done.
#
# $prompt and $model are texts as JSON writes them, without the quotation marks around them: they can be put into JSON
# as they are. So has what `piece` gets to be.
set -u
LC_ALL=C
export LC_ALL

name=minimal-provider

# Says the answer piece by piece, as soon as the model gives it.
answer() {
    piece 'You said: '
    piece "$prompt"
}

# Says that it is well, or on standard error what is wrong. The caller waits five seconds.
healthy() {
    echo OK
}

# Reads the request and prints its prompt and its model, a line each. Whatever is no request is refused.
read_request() {
    awk '
    function refuse(why) {
        print "the request cannot be read: " why | "cat >&2"
        close("cat >&2")
        exit 2
    }
    function blanks() { if (match(text, /^[ \t\r\n]+/)) text = substr(text, RLENGTH + 1) }
    # Takes what has to stand here, and the blanks behind it.
    function take(pattern,  token) {
        if (!match(text, pattern)) refuse("no JSON near `" substr(text, 1, 20) "`")
        token = substr(text, 1, RLENGTH)
        text = substr(text, RLENGTH + 1)
        blanks()
        return token
    }
    # Takes a text: up to the first quotation mark that has no odd number of backslashes before it.
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
for command; do :; done # The last argument; what stands before it is not needed here.
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
