//! Agents beside untrusted files: kept from the code of the repository, or not started.

use super::*;

/// Nothing is known of the programs before their first run. One lacks the option, the other may not know the variable.
#[test]
fn an_old_program_never_starts_beside_files_that_it_cannot_be_kept_from() {
    let hostile = Hostile::new();
    let old = |name: &str, version: &str, help: &str| {
        let log = hostile.world.path(&format!("{name}.log")).display().to_string();
        let text = format!(
            "case \"$*\" in --version) echo '{version}'; exit;; --help) echo '{help}'; exit;; esac\n\
             echo \"ran $*\" >>{log}\ncat >/dev/null\n{}",
            answering()
        );
        hostile.world.script(&format!("bin/{name}"), &text);
    };
    old(
        "claude",
        "1.0.0 (Claude Code)",
        "Usage: claude [options]\n\nOptions:\n  -p, --print  Print\n  --output-format <format>  Format",
    );
    old("gemini", "0.40.0", "Usage: gemini [options]");
    let run = |name: &str, mode: &str| hostile.end(&["run", "--provider", name, "--permission", mode, "hi"]);
    assert_eq!(hostile.write("work/repo/.mcp.json", "{}").ran("claude"), "");
    hostile.write("work/repo/.gemini/settings.json", "{}");
    for mode in ["read", "ask"] {
        run("claude", mode).exits(2).tells(&[
            "`--setting-sources` is not in its help; this project is not trusted and has .mcp.json",
            "`bowline trust`",
        ]);
        run("gemini", mode).exits(2).tells(&[
            "its version is 0.40.0, and `GEMINI_CLI_TRUST_WORKSPACE` is known to keep it from them since 0.61.0 only",
            "this project is not trusted and has .gemini/settings.json",
        ]);
    }
    assert_eq!((hostile.ran("claude"), hostile.ran("gemini")), (String::new(), String::new()));
    run("claude", "edit");
    assert!(hostile.ran("claude").contains("ran "), "a mode that allows more does not ask for it");
}

#[test]
fn an_agent_that_may_only_read_or_ask_is_kept_from_the_repositorys_code() {
    let hostile = Hostile::new();
    let run = |permission: &str| {
        let ended =
            hostile.end(&["run", "--provider", "claude", "--permission", permission, "Say hello."]).exits(0);
        let ran = hostile.ran("usual");
        let last = ran.lines().rfind(|line| line.starts_with("ran ")).unwrap_or_default().to_owned();
        (last.contains("--setting-sources user"), ended.stderr)
    };
    assert!(!run("read").0, "there is nothing to keep it from");
    hostile.write("work/repo/.mcp.json", "{}");
    hostile.write("work/repo/.git/HEAD", "ref: refs/heads/main\n");
    for mode in ["read", "ask"] {
        let (kept, stderr) = run(mode);
        assert!(
            kept && stderr.contains(".mcp.json") && stderr.contains("`bowline trust`"),
            "{mode}: {stderr}"
        );
    }
    assert!(!run("edit").0);
    let opencode = hostile.world.path("bin/opencode");
    bowline_testkit::copy_program(&hostile.world.path("bin/claude"), &opencode);
    hostile.write("work/repo/opencode.json", "{}");
    let refused = hostile.end(&["run", "--provider", "opencode", "Say hello."]).exits(2);
    refused.tells(&["this project is not trusted and has opencode.json", "`bowline trust`"]);
    let shown = hostile.end(&["trust"]).exits(0);
    assert!(shown.stdout.contains("  .mcp.json: claude"), "{}", shown.stdout);
    assert!(!run("read").0, "trust lifts it");
    hostile.write("work/repo/.mcp.json", "{ }");
    assert!(run("read").0, "a changed file is untrusted again");
}

/// The name that a program is called by does not lift its rules, and an unknown program gets a warning.
#[test]
fn an_agent_command_follows_the_rules_of_the_program_that_it_starts() {
    let hostile = Hostile::new();
    hostile.write("work/repo/.mcp.json", "{}");
    let run = |command: &str| hostile.end(&["run", "--provider", command, "--permission", "ask", "hi"]);
    for command in ["acp:claude-agent-acp", "acp:npx -y @scope/claude-agent-acp@1.2.3"] {
        run(command).exits(2).tells(&[
            "the adapter starts Claude Code with the repository's settings, hooks and MCP servers",
            "this project is not trusted and has .mcp.json",
        ]);
    }
    let program = hostile.world.script("bin/my-agent", "exit 1").display().to_string();
    let ended = run(&format!("acp:{program}"));
    ended.tells(&["this agent may run the repository's own code", "has .mcp.json", "`bowline trust`"]);
}

#[test]
fn a_program_that_a_projects_settings_choose_must_be_restricted() {
    let hostile = Hostile::new();
    hostile.log("external", "bin/external");
    hostile.log("glm", "bin/ax-glm");
    let program = hostile.world.path("bin/external").display().to_string();
    hostile.write(
        "work/.pi/agent/extensions/cli-providers/config.json",
        &format!(r#"{{"my-cli": {{"executable": "{program}"}}}}"#),
    );
    // The user may also have allowed such programs in general, for those that they name.
    for own in ["", "[permission]\nunrestricted = \"warn\"\n", "[run]\nprovider = \"auto\"\n"] {
        hostile.write("work/.config/bowline/bowline.toml", own);
        let chosen = [("external", "model = \"my-cli\""), ("glm", "provider = \"glm\"")];
        for (program, setting) in chosen {
            hostile.write("work/repo/.bowline/bowline.toml", &format!("[run]\n{setting}\n"));
            let ended = hostile.end(&["run", "Explain this."]);
            assert_eq!(hostile.ran(program), "", "{own:?} {setting}: {}", ended.stderr);
            assert!(ended.stderr.contains("--permission ask"), "{own:?} {setting}: {}", ended.stderr);
            let (key, value) = setting.split_once(" = ").expect("a setting");
            let file = hostile.world.path("work/repo/.bowline/bowline.toml");
            let why = format!(": this project chose it (`run.{key} = {}` in ", value.trim_matches('"'));
            assert!(ended.stderr.contains(&why), "{own:?} {setting}: {}", ended.stderr);
            assert!(ended.stderr.contains(&file.display().to_string()), "{}", ended.stderr);
        }
    }
    // The user's own word runs both, in the same project.
    hostile.write("work/.config/bowline/bowline.toml", "");
    hostile.end(&["run", "--model", "my-cli", "Explain this."]);
    assert_ne!(hostile.ran("external"), "");
    hostile.end(&["run", "--provider", "glm", "Explain this."]);
    assert_ne!(hostile.ran("glm"), "");
}

#[test]
fn a_projects_settings_cannot_raise_what_the_users_router_allows() {
    let hostile = Hostile::new();
    hostile.write(
        "work/.config/bowline/router.yaml",
        "providers: [{name: claude}]\nrouting: {max_retries: 0}\nbudgets: {request: {cost: 0}}\n",
    );
    hostile
        .write("work/repo/.bowline/bowline.toml", "[budget.request]\ncost = 1000000\n[route]\nretries = 1\n");
    let ended = hostile.end(&["run", "--provider", "claude", "hi"]);
    let refusal = "the budget for this request is used up: the limit is 0";
    assert!(ended.stderr.contains(refusal), "{}", ended.stderr);
    assert!(!hostile.ran("usual").contains("--print"), "{}", hostile.ran("usual"));
    let explained = hostile.end(&["route", "--provider", "auto", "--explain", "--json"]).json();
    assert_eq!(explained["retries"], 0, "{explained:#}");
}
