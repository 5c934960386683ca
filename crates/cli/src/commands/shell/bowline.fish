# Completion for bowline in fish. Load it with: bowline completions fish | source
function __bowline_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor)
    bowline __complete -- $words[2..-1] 2>/dev/null
end
complete --command bowline --no-files --condition '__bowline_complete | string length --quiet' --arguments '(__bowline_complete)'
complete --command bowline --condition 'not __bowline_complete | string length --quiet' --force-files
