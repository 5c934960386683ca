# Completion for bowline in bash. Load it with: source <(bowline completions bash)
_bowline() {
    local IFS=$'\n' line
    COMPREPLY=()
    for line in $(bowline __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        COMPREPLY+=("${line%%$'\t'*}")
    done
    # Where nothing is known, bash offers files. After a name that ends a list, a blank follows.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -o bashdefault -o nosort -F _bowline bowline 2>/dev/null ||
    complete -o default -o bashdefault -F _bowline bowline
