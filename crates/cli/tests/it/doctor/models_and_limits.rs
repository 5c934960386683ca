//! `bowline models` and `bowline limits`.

use super::*;

#[test]
fn models_are_listed_and_retired_ones_refused() {
    let machine = Machine::new();
    let (code, _, stderr) = text(&machine.run(&["models", "codex"], &[]));
    assert_eq!(code, 4);
    assert!(
        stderr.starts_with("error: the models of Codex CLI are unknown\ncaused by: `codex` is not usable"),
        "{stderr}"
    );
    let (code, _, stderr) = text(&machine.run(&["models"], &[]));
    assert_eq!((code, stderr.lines().next()), (4, Some("error: no agent is installed")));

    let models = r#"[{"id":"new","displayName":"New","isDefault":true,"supportedReasoningEfforts":[{"reasoningEffort":"low"},{"reasoningEffort":"high"}]},
{"id":"old","upgrade":"new","upgradeInfo":{"model":"new","retirementAt":1600000000}},{"id":"secret","hidden":true}]"#;
    let models = models.replace('\n', "");
    machine.program(
        "codex",
        &format!("[ \"$1\" = app-server ] || {{ cat >/dev/null; exit 3; }}\nMODELS='{models}'\n{APP_SERVER}"),
    );
    let (code, stdout, stderr) = text(&machine.run(&["models", "codex"], &[]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    insta::assert_snapshot!(stdout, @r"
    codex
      MODEL  KIND    EFFORTS
      new    pinned  low high  default
      old    pinned            retired: use new
    ");
    let (_, list) = machine.json(&["models", "codex", "--json", "--all"], &[]);
    assert_eq!(list[0]["models"][2]["id"], "secret");
    assert_eq!(
        (&list[0]["source"], list[0]["models"].as_array().map(Vec::len)),
        (&"program".into(), Some(3))
    );

    let refused = |args: &[&str]| {
        let mut all = vec!["run", "--provider", "codex"];
        all.extend(args);
        let (code, _, stderr) = text(&machine.run(&all, &[]));
        (code, stderr)
    };
    let before = machine.started().len();
    let (code, stderr) = refused(&["--model", "old", "hello"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("the model is retired and answers no more"), "{stderr}");
    assert!(stderr.contains("hint: use `--model new`"), "{stderr}");
    let (code, stderr) = refused(&["--model", "new", "--effort", "ultra", "hello"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("hint: it knows low, high"), "{stderr}");
    assert_eq!(machine.started().len(), before, "nothing was started");
    let (code, stderr) = refused(&["--permission", "read", "--model", "new", "--effort", "high", "hello"]);
    assert_eq!(code, 1, "it was started, and failed: {stderr}");
}

#[test]
fn limits_are_told() {
    let machine = Machine::new();
    machine.program("codex", &format!("[ \"$1\" = app-server ] || exit 64\n{APP_SERVER}"));
    let (code, stdout, stderr) = text(&machine.run(&["limits", "codex"], &[]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    insta::assert_snapshot!(stdout, @r"
    codex (plus)
      WINDOW   USED  OF   RESETS
      primary  12 %  5 h
    ");
    let (code, accounts) = machine.json(&["limits", "--json"], &[]);
    assert_eq!((code, &accounts[0]["windows"][0]["used_percent"]), (0, &12.0.into()));
    assert_eq!(machine.started().len(), 1, "asked once a minute");
    let (code, _, stderr) = text(&machine.run(&["limits", "pi"], &[]));
    let told = "error: pi does not report its limits\nhint: providers that report limits: claude, codex\n";
    assert_eq!((code, stderr.as_str()), (2, told));
    let (code, _, stderr) = text(&machine.run(&["limits", "claude"], &[]));
    assert_eq!((code, stderr.lines().next()), (4, Some("error: the limits of Claude Code are unknown")));
    let (code, _, stderr) = text(&machine.run(&["limits", "codx"], &[]));
    assert_eq!(code, 2, "{stderr}");
}
