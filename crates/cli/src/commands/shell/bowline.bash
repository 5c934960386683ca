# Completion for bowline in bash. Load it with: source <(bowline completions bash)
_bowline() {
    local line
    COMPREPLY=()
    # Lines are read one by one, so that bash does not expand patterns in them.
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(bowline __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # Where nothing is known, bash offers files. After a name that ends a list, a blank follows.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -o bashdefault -o nosort -F _bowline bowline 2>/dev/null ||
    complete -o default -o bashdefault -F _bowline bowline
