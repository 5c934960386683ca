//! Git: pushes, merges, history, and commands that run other commands.

use bowline_protocol::{ApprovalCategory, GatedAction, Risk};

use super::{ProgramCall, git_options};
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::pattern;
use crate::policy::shell::{CommandInput, ShellWord, UNKNOWN};
use crate::policy::wrappers::skip_options;

const FORCE: BuiltInRule = BuiltInRule::high("git.force-push", ApprovalCategory::Merge);
const HISTORY: BuiltInRule = BuiltInRule::high("git.history", ApprovalCategory::Merge);
const DISCARD: BuiltInRule =
    BuiltInRule { rule: "git.discard", risk: Risk::Med, category: ApprovalCategory::Edit };
const PROTECTED: BuiltInRule = BuiltInRule::high("git.protected-branch", ApprovalCategory::Merge);
const MERGE: BuiltInRule =
    BuiltInRule { rule: "git.merge", risk: Risk::Med, category: ApprovalCategory::Merge };
const MASS: BuiltInRule = BuiltInRule::high("delete.mass", ApprovalCategory::Edit);
const ALIAS: BuiltInRule = BuiltInRule::high("unknown.alias", ApprovalCategory::Shell);
const UNKNOWN_ACT: BuiltInRule = BuiltInRule::high("unknown.command", ApprovalCategory::Shell);
const SETTINGS: BuiltInRule = BuiltInRule::high("write.settings", ApprovalCategory::Edit);

/// The subcommands that come with git. Any other word may be an alias.
const KNOWN: &str = " add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap \
    check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config \
    count-objects credential describe diff diff-files diff-index diff-tree difftool fast-export fast-import fetch \
    filter-branch filter-repo fmt-merge-msg for-each-ref format-patch fsck gc grep hash-object help init instaweb \
    interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file \
    merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs prune pull \
    push range-diff read-tree rebase reflog remote repack replace request-pull rerere reset restore rev-list rev-parse \
    revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stash status stripspace \
    submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info var verify-commit \
    verify-pack verify-tag version whatchanged worktree write-tree lfs ";

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    git_options::look(judge, call);
    let Some((verb, args)) = call.subcommand().split_first() else { return };
    let part = Some(call.command.span);
    if !verb.is_known() || verb.glob {
        return judge.ask(&UNKNOWN_ACT, Some(verb.span), "the git command is known only when it runs");
    }
    if !KNOWN.contains(&format!(" {} ", verb.text)) {
        return judge.ask(
            &ALIAS,
            Some(verb.span),
            format!("`git {}` is not a command of git, so it may be an alias", verb.text),
        );
    }
    let has = |names: &[&str]| args.iter().any(|arg| names.contains(&arg.text.as_str()));
    let second = args.first().map(|arg| arg.text.as_str()).unwrap_or_default();
    // `--continue` and its like go on with what was decided before.
    let goes_on = has(&["--abort", "--continue", "--skip", "--quit", "--edit-todo", "--show-current-patch"]);
    match verb.text.as_str() {
        "push" | "send-pack" => push(judge, call, args),
        "merge" if !goes_on => merge(judge, call, "`git merge` merges into a branch"),
        "filter-branch" | "filter-repo" | "replace" | "fast-import" | "update-ref" => {
            judge.ask(&HISTORY, part, format!("`git {}` rewrites history", verb.text));
        }
        "rebase" if !goes_on => judge.ask(&HISTORY, part, "`git rebase` rewrites history"),
        "commit" if has(&["--amend"]) => {
            judge.ask(&HISTORY, part, "`git commit --amend` rewrites the last commit")
        }
        "reflog" if matches!(second, "expire" | "delete") => {
            judge.ask(&HISTORY, part, format!("`git reflog {second}` removes what undoes mistakes"));
        }
        "gc" | "prune" | "repack"
            if args.iter().any(|arg| arg.text.starts_with("--prune") || arg.text == "--expire=now")
                || verb.text == "prune" =>
        {
            judge.ask(&HISTORY, part, format!("`git {}` removes commits that no branch has", verb.text));
        }
        "branch"
            if has(&["-D", "-M", "-C", "-f", "--force"])
                || (has(&["-d", "--delete"]) && has(&["-f", "--force"])) =>
        {
            judge.ask(&HISTORY, part, "`git branch` removes or moves a branch by force");
        }
        "tag" if has(&["-d", "--delete", "-f", "--force"]) => {
            judge.ask(&HISTORY, part, "`git tag` removes or moves a tag")
        }
        "reset" if has(&["--hard", "--merge", "--keep"]) => {
            judge.ask(&DISCARD, part, "`git reset` discards changes")
        }
        "stash" if matches!(second, "drop" | "clear") => {
            judge.ask(&DISCARD, part, format!("`git stash {second}` discards stashed changes"));
        }
        "checkout" | "restore" | "switch" => discards(judge, call, args),
        "clean"
            if !has(&["-n", "--dry-run"])
                && (call.has(&["-f", "--force"]) || call.has(&["-x", "-X", "-d"])) =>
        {
            judge.ask(&MASS, part, "`git clean` removes all files that git does not know");
        }
        "worktree" if second == "remove" && has(&["-f", "--force"]) => {
            judge.ask(&DISCARD, part, "`git worktree remove` discards a worktree")
        }
        "rm" if args.iter().any(|arg| matches!(arg.text.as_str(), "." | "*" | "./" | ":/")) => {
            judge.ask(&MASS, part, "`git rm` removes all files of the repository");
        }
        "config" => config(judge, call, args),
        // With another address, a harmless `git push` sends the code to another server.
        "remote" if matches!(second, "add" | "set-url" | "rename" | "remove" | "rm") => {
            let reason = format!("`git remote {second}` changes where pushes go and fetches come from");
            judge.ask(&SETTINGS, part, reason);
        }
        "pull" if has(&["--rebase", "-r"]) || args.iter().any(|arg| arg.text.starts_with("--rebase=")) => {
            judge.ask(&HISTORY, part, "`git pull --rebase` rewrites history");
        }
        _ => {}
    }
    runs(judge, call, &verb.text, args);
}

/// Judges what a push does to which branches.
fn push(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, args: &[ShellWord]) {
    let part = Some(call.command.span);
    if args.iter().any(|arg| matches!(arg.text.as_str(), "-n" | "--dry-run")) {
        return;
    }
    let forced = args.iter().any(|arg| {
        let text = arg.text.as_str();
        let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        text.starts_with("--force")
            || text.starts_with("--mirror")
            || text.starts_with("--delete")
            || text == "--prune"
            || letters.contains(['f', 'd'])
            // A refspec needs no option: `+main` overwrites `main`, and `:main` removes it.
            || text.starts_with('+')
            || text.starts_with(':')
    });
    if forced {
        judge.ask(&FORCE, part, "`git push` overwrites or removes branches on the server");
    }
    let (at, _) = skip_options(args, 0, &["-o", "--push-option", "--repo", "--receive-pack", "--exec"]);
    let operands: Vec<&ShellWord> = args[at..].iter().filter(|arg| !arg.text.starts_with('-')).collect();
    if args.iter().any(|arg| matches!(arg.text.as_str(), "--all" | "--branches" | "--mirror")) {
        judge.gate(
            GatedAction::Merge,
            &PROTECTED,
            part,
            "`git push` pushes all branches, also protected ones",
        );
    // Without a refspec git pushes the branch that is checked out.
    } else if operands.len() < 2 {
        let tags_only = args.iter().any(|arg| arg.text == "--tags") && operands.len() == 1;
        if !tags_only {
            branch(judge, call, judge.facts.branch.clone().as_deref(), part);
        }
    }
    for refspec in operands.iter().skip(1) {
        let target = refspec.text.rsplit(':').next().unwrap_or_default().trim_start_matches('+');
        let target = target.strip_prefix("refs/heads/").unwrap_or(target);
        let head = matches!(target, "HEAD" | "@");
        let name = if head { judge.facts.branch.clone() } else { Some(target.to_owned()) };
        branch(judge, call, name.as_deref().filter(|name| !name.contains(UNKNOWN)), Some(refspec.span));
    }
}

/// Asks if a branch is protected, or not known.
fn branch(
    judge: &mut ActJudge<'_>,
    call: &ProgramCall<'_>,
    name: Option<&str>,
    part: Option<crate::policy::verdict::TextSpan>,
) {
    let protects = |name: &str| {
        judge
            .policies
            .iter()
            .any(|policy| policy.branches.iter().any(|rule| pattern::matches(&rule.pattern, name)))
    };
    match name {
        Some(name) if protects(name) => {
            judge.gate(GatedAction::Merge, &PROTECTED, part, format!("the branch `{name}` is protected"));
        }
        Some(_) => {}
        None => {
            let part = part.or(Some(call.command.span));
            judge.gate(
                GatedAction::Merge,
                &PROTECTED,
                part,
                "which branch `git push` changes is known only when it runs",
            );
        }
    }
}

fn merge(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, reason: &str) {
    // A branch that is not known counts as a protected one.
    let protected = judge.facts.branch.as_deref().is_none_or(|name| {
        judge
            .policies
            .iter()
            .any(|policy| policy.branches.iter().any(|rule| pattern::matches(&rule.pattern, name)))
    });
    if protected {
        judge.gate(
            GatedAction::Merge,
            &MERGE,
            Some(call.command.span),
            format!("{reason} that is protected or not known"),
        );
    }
}

/// Asks if a checkout discards changes of the whole tree.
fn discards(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, args: &[ShellWord]) {
    // `git restore --staged .` changes the index and keeps the files.
    let staged = args.iter().any(|arg| matches!(arg.text.as_str(), "--staged" | "-S"))
        && !args.iter().any(|arg| arg.text == "--worktree" || arg.text == "-W");
    let all = args.iter().any(|arg| matches!(arg.text.as_str(), "." | "./" | ":/" | "*"));
    let force = args
        .iter()
        .any(|arg| matches!(arg.text.as_str(), "-f" | "--force" | "--discard-changes" | "-B" | "-C"));
    if (all && !staged) || force {
        let reason = format!("`git {}` discards changes", call.verb().unwrap_or_default());
        judge.ask(&DISCARD, Some(call.command.span), reason);
    }
}

/// Judges `git config`: settings of git name programs that later commands run.
fn config(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, args: &[ShellWord]) {
    const READING: [&str; 12] = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "-l",
        "get",
        "list",
        "--show-origin",
        "--show-scope",
        "--get-color",
        "--name-only",
    ];
    let reads = args.iter().any(|arg| READING.contains(&arg.text.as_str()));
    // `git config user.name` reads, `git config user.name x` writes.
    let operands = args.iter().filter(|arg| !arg.text.starts_with('-')).count();
    let edits = args.iter().any(|arg| {
        arg.text.starts_with("--unset")
            || matches!(arg.text.as_str(), "-e" | "--edit" | "--add" | "--remove-section" | "--replace-all")
    });
    if edits || (!reads && operands > 1) {
        judge.ask(
            &SETTINGS,
            Some(call.command.span),
            "settings of git decide which programs later commands run",
        );
    }
}

/// Judges the commands that a command of git runs.
fn runs(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, verb: &str, args: &[ShellWord]) {
    let text = |at: usize| args.get(at);
    match verb {
        "rebase" => {
            let at = args.iter().position(|arg| matches!(arg.text.as_str(), "-x" | "--exec"));
            run_text(judge, call, at.and_then(|at| text(at + 1)));
            for arg in args {
                if let Some(value) = arg.text.strip_prefix("--exec=") {
                    run_text(judge, call, Some(&ShellWord { text: value.to_owned(), ..arg.clone() }));
                }
            }
        }
        "bisect" if args.first().is_some_and(|arg| arg.text == "run") => words(judge, call, &args[1..]),
        "submodule" => {
            if let Some(at) = args.iter().position(|arg| arg.text == "foreach") {
                let (from, _) = skip_options(args, at + 1, &[]);
                match &args[from.min(args.len())..] {
                    // One word goes through a shell; several are a program with its arguments.
                    [one] => run_text(judge, call, Some(one)),
                    several => words(judge, call, several),
                }
            }
        }
        _ => {}
    }
}

fn run_text(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, text: Option<&ShellWord>) {
    match text {
        Some(text) if text.is_known() => {
            judge.nested(&text.text, text.span, &call.command.dirs, CommandInput::Inherited)
        }
        Some(text) => {
            judge.ask(&UNKNOWN_ACT, Some(text.span), "which command git runs is known only when it runs")
        }
        None => {}
    }
}

fn words(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>, words: &[ShellWord]) {
    judge.nested_words(crate::policy::shell::ShellCommand { words: words.to_vec(), ..call.command.clone() });
}
