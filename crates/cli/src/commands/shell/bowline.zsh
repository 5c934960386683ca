#compdef bowline
# Completion for bowline in zsh. Load it with: source <(bowline completions zsh)
_bowline() {
    local -a candidates
    local line word about
    for line in "${(@f)$(bowline __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\t'*}
        about=${${line#"$word"}#$'\t'}
        # `_describe` takes a word and what it is with a colon between them.
        candidates+=("${word//:/\\:}${about:+:$about}")
    done
    if (( ${#candidates} )); then
        _describe -V 'bowline' candidates
    else
        _files
    fi
}
if [[ $funcstack[1] == _bowline ]]; then
    _bowline "$@"
elif (( $+functions[compdef] )); then
    compdef _bowline bowline
fi
