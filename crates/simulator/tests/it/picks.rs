//! Which scenario answers, and which of its steps.

use bowline_simulator::{PickedBy, SidePurpose, Simulator};
use serde_json::json;

use crate::support::{ALL, Speaks, Turn, last, post, post_with, simulator, with};

async fn chosen(simulator: &Simulator) -> (String, PickedBy, Option<usize>) {
    let choice = last(simulator).await.choice.expect("a choice");
    (choice.scenario, choice.picked_by, choice.step)
}

#[tokio::test]
async fn a_header_comes_before_a_marker_and_a_marker_before_a_route() {
    let simulator = simulator().await;
    let ask = |prompt| Speaks::Chat.ask(false, &[Turn::User(prompt)], &[]);
    let header = [("x-bowline-scenario", "thinking")];
    post_with(&simulator, "/r/long/v1/chat/completions", &header, &ask("[[text]]")).await;
    assert_eq!(chosen(&simulator).await, ("thinking".into(), PickedBy::Header, Some(1)));
    post(&simulator, "/r/long/v1/chat/completions", &ask("[[text]]")).await;
    assert_eq!(chosen(&simulator).await, ("text".into(), PickedBy::Marker, Some(1)));
    post(&simulator, "/r/recall~client-7/v1/chat/completions", &ask("hi")).await;
    assert_eq!(chosen(&simulator).await, ("recall".into(), PickedBy::Route, Some(1)));
    assert_eq!(last(&simulator).await.route.as_deref(), Some("recall~client-7"));
    post(&simulator, "/r/client-7/v1/chat/completions", &ask("hi")).await;
    assert_eq!(chosen(&simulator).await, ("default".into(), PickedBy::Default, Some(1)));
}

#[tokio::test]
async fn a_scenario_that_does_not_exist_is_refused_in_the_words_of_the_api() {
    let simulator = simulator().await;
    let error = "bowline simulate: there is no scenario `nonsense`; `bowline simulate --list` lists them";
    for api in ALL {
        for stream in [false, true] {
            // A known marker before an unknown one does not replace it: the last one counts.
            let reply = api.say(&simulator, stream, "[[text]] [[nonsense]] hi", &[]).await;
            assert_eq!(reply.status, 400, "{api:?}");
            assert!(reply.body.contains(error), "{api:?}: {}", reply.body);
            let choice = last(&simulator).await.choice.expect("a choice");
            assert_eq!((choice.scenario.as_str(), choice.step, choice.unknown), ("nonsense", None, true));
        }
    }
    let ask = Speaks::Chat.ask(false, &[Turn::User("[[text]]")], &[]);
    let header = [("x-bowline-scenario", "nonsense")];
    let reply = post_with(&simulator, "/r/text/v1/chat/completions", &header, &ask).await;
    assert_eq!((reply.status, reply.json()["error"]["message"].as_str()), (400, Some(error)));
    assert_eq!(chosen(&simulator).await, ("nonsense".into(), PickedBy::Header, None));
    // These are not markers: a test in a shell, a name in upper case. A route may be the name of a client.
    for prompt in ["if [[ -f x ]]", "[[Link]]", "[[text"] {
        let ask = Speaks::Chat.ask(false, &[Turn::User(prompt)], &[]);
        post(&simulator, "/r/nonsense/v1/chat/completions", &ask).await;
        assert_eq!(chosen(&simulator).await, ("default".into(), PickedBy::Default, Some(1)), "{prompt}");
        assert!(!last(&simulator).await.choice.expect("a choice").unknown, "{prompt}");
    }
}

#[tokio::test]
async fn the_step_follows_from_the_conversation_and_not_from_a_count() {
    let simulator = simulator().await;
    let tools = ["Bash", "run_shell_command"];
    for api in ALL.into_iter().filter(|api| *api != Speaks::OllamaGenerate) {
        let before = [Turn::User("earlier"), Turn::Model("yes")];
        let first: Vec<Turn<'_>> = before.into_iter().chain([Turn::User("[[shell]] go")]).collect();
        let second: Vec<Turn<'_>> =
            first.iter().copied().chain([Turn::Call("Bash"), Turn::Result("the-knot-holds")]).collect();
        let third: Vec<Turn<'_>> =
            second.iter().copied().chain([Turn::Model("The command ran."), Turn::User("and now?")]).collect();
        let again: Vec<Turn<'_>> = third.iter().copied().chain([Turn::User("[[text]] once more")]).collect();
        // Each request is sent twice, as by a program that retries.
        for (turns, scenario, step) in [
            (&first, "shell", 1),
            (&first, "shell", 1),
            (&second, "shell", 2),
            (&second, "shell", 2),
            (&third, "shell", 2),
            (&again, "text", 1),
        ] {
            post(&simulator, api.path(false), &api.ask(false, turns, &tools)).await;
            assert_eq!(chosen(&simulator).await, (scenario.into(), PickedBy::Marker, Some(step)), "{api:?}");
        }
    }
}

#[tokio::test]
async fn a_step_can_wait_for_a_tool_result() {
    let mine = with(
        "about = \"x\"\n\
         [[step]]\nafter = \"tool-result\"\ntext = \"a tool spoke\"\n\
         [[step]]\nafter = \"user\"\ntext = \"a user spoke\"\n",
    )
    .await;
    for (turns, text) in [
        (vec![Turn::User("[[mine]]")], "a user spoke"),
        (vec![Turn::User("[[mine]]"), Turn::Result("x")], "a tool spoke"),
    ] {
        let reply = post(&mine, "/v1/chat/completions", &Speaks::Chat.ask(false, &turns, &[])).await;
        assert_eq!(Speaks::Chat.text(false, &reply), text);
    }
}

#[tokio::test]
async fn the_tool_that_is_offered_is_called_with_the_fields_that_it_has() {
    let simulator = simulator().await;
    let prompt = "[[shell command=\"ls -la\"]]";
    for (tool, input) in
        [("Bash", json!({ "command": "ls -la" })), ("run_shell_command", json!({ "command": "ls -la" }))]
    {
        let reply = Speaks::Messages.say(&simulator, false, prompt, &["other", tool]).await.json();
        assert_eq!((&reply["content"][1]["name"], &reply["content"][1]["input"]), (&json!(tool), &input));
    }
    // No tool is offered: the first is called anyway, as models do.
    let reply = Speaks::Messages.say(&simulator, false, prompt, &[]).await.json();
    assert_eq!(reply["content"][1]["name"], "Bash");
}

#[tokio::test]
async fn a_tool_that_takes_a_text_gets_one() {
    let simulator = simulator().await;
    let mut ask = Speaks::Responses.ask(false, &[Turn::User("[[edit file=a.txt line=hello]]")], &[]);
    ask["tools"] = json!([{ "type": "custom", "name": "apply_patch" }]);
    let reply = post(&simulator, "/v1/responses", &ask).await.json();
    assert_eq!(reply["output"][1]["type"], "custom_tool_call");
    assert_eq!(reply["output"][1]["input"], "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch");
    // The same tool as a function, inside a group.
    let parameters = json!({ "type": "object", "properties": { "input": { "type": "string" } } });
    let function = json!({ "type": "function", "name": "apply_patch", "parameters": parameters });
    ask["tools"] = json!([{ "type": "namespace", "name": "files", "tools": [function] }]);
    let reply = post(&simulator, "/v1/responses", &ask).await.json();
    let call = &reply["output"][1];
    assert_eq!((&call["type"], &call["namespace"]), (&json!("function_call"), &json!("files")));
    assert!(
        call["arguments"].as_str().is_some_and(|input| input.starts_with("{\"input\":\"*** Begin")),
        "{call}"
    );
}

#[tokio::test]
async fn texts_can_say_what_stands_in_the_request() {
    let mine = with(
        "about = \"x\"\n[values]\nname = \"nobody in {cwd}\"\n[[step]]\n\
         text = \"{first-user}|{last-user}|{system}|{name}|{cwd}|{{other}}|{\"\n",
    )
    .await;
    let turns = [
        Turn::User("<note>Working directory: /w/d\n</note> one <x>y</x>"),
        Turn::Model("yes"),
        Turn::User("[[mine name=\"a b\"]]"),
    ];
    let reply = post(&mine, "/v1/chat/completions", &Speaks::Chat.ask(false, &turns, &[])).await;
    assert_eq!(Speaks::Chat.text(false, &reply), "one|[[mine name=\"a b\"]]|Be brief.|a b|/w/d|{other}|{");
    let turns = [Turn::User("Working directory: /w/d\n"), Turn::User("[[mine]]")];
    let reply = post(&mine, "/v1/chat/completions", &Speaks::Chat.ask(false, &turns, &[])).await;
    assert!(Speaks::Chat.text(false, &reply).contains("|nobody in /w/d|/w/d|"), "{}", reply.body);
}

#[tokio::test]
async fn a_text_can_be_repeated_with_its_number() {
    for (times, text) in [(1, "1,"), (12, "1,2,3,4,5,6,7,8,9,10,11,12,")] {
        let mine = with(&format!("about = \"x\"\n[[step]]\ntext = \"{{n}},\"\nrepeat = {times}\n")).await;
        let reply = Speaks::Chat.say(&mine, true, "[[mine]]", &[]).await;
        assert_eq!(Speaks::Chat.text(true, &reply), text);
    }
}

#[tokio::test]
async fn requests_beside_the_conversation_get_a_short_answer() {
    let simulator = simulator().await;
    let fault = [Turn::User("[[unauthorized]] hi")];
    let mut title = Speaks::Chat.ask(false, &fault, &[]);
    title["messages"][0]["content"] = json!("You write titles: give this conversation a title.");
    // A long system prompt of a program without tools has the word too, further down.
    let mut plain = title.clone();
    plain["messages"][0]["content"] =
        json!(format!("You are an agent. {}Give commits a title.", "Be brief. ".repeat(40)));
    assert_eq!(post(&simulator, Speaks::Chat.path(false), &plain).await.status, 401);
    let mut probe = Speaks::Messages.ask(false, &[Turn::User("quota")], &[]);
    probe["max_tokens"] = json!(1);
    let mut summary = Speaks::Messages.ask(false, &fault, &["Bash"]);
    let request = "Your task is to create a detailed summary of the conversation so far.";
    summary["messages"].as_array_mut().expect("messages").push(json!({ "role": "user", "content": request }));
    let mut utility = Speaks::Google.ask(false, &fault, &[]);
    utility["generationConfig"] = json!({ "responseMimeType": "application/json", "responseJsonSchema":
        { "type": "object", "properties": { "model_choice": { "enum": ["small", "large"] } } } });
    let mut memory = Speaks::Chat.ask(false, &fault, &["write_file"]);
    memory["messages"][0]["content"] = json!("You are the managed memory extraction agent.");
    // With tools, and with the user's message in it.
    let naming = "Your task is to generate a very short title for a conversation based on the user's first message.\n\n[[unauthorized]] hi";
    let naming = Speaks::Responses.ask(false, &[Turn::User(naming)], &["exec_command"]);
    for (api, ask, side) in [
        (Speaks::Chat, title, SidePurpose::Title),
        (Speaks::Messages, probe, SidePurpose::Probe),
        (Speaks::Messages, summary, SidePurpose::Summary),
        (Speaks::Google, utility, SidePurpose::Utility),
        (Speaks::Chat, memory, SidePurpose::Utility),
        (Speaks::Responses, naming, SidePurpose::Title),
    ] {
        let reply = post(&simulator, api.path(false), &ask).await;
        assert_eq!(reply.status, 200, "{side:?}: {}", reply.body);
        let choice = last(&simulator).await.choice.expect("a choice");
        assert_eq!((choice.side, choice.step), (Some(side), None), "{ask}");
        if api == Speaks::Google {
            assert_eq!(api.text(false, &reply), r#"{"model_choice":"small"}"#);
        }
    }
}
