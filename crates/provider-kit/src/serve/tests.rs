//! A provider as its caller sees it: input, output, and the exit code.

use serde_json::{Value, json};

use super::*;
use crate::{Done, Finish};

/// Repeats the words of the prompt, one by one, and fails at `!`.
struct Words {
    loud: bool,
}

impl Provider for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn argument(&mut self, argument: &str) -> Result<(), Error> {
        match argument {
            "--loud" => self.loud = true,
            other => return Err(Error::new(format!("unknown argument `{other}`"))),
        }
        Ok(())
    }

    fn answer(&self, request: &Request, say: &mut Say<'_>) -> Result<Done, Error> {
        for word in request.prompt.split_inclusive(' ') {
            if word.trim() == "!" {
                return Err(Error::new("the model is out"));
            }
            say.text(&if self.loud { word.to_uppercase() } else { word.to_owned() })?;
        }
        Ok(Done { input_tokens: Some(3), output_tokens: Some(4), finish: Finish::Length, ..Done::by("w-1") })
    }

    fn health(&self) -> Result<String, Error> {
        if self.loud { Err(Error::new("hoarse")) } else { Ok("OK".to_owned()) }
    }
}

fn call(args: &[&str], stdin: &str) -> (u8, String, String) {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = serve(&mut Words { loud: false }, &args, &mut stdin.as_bytes(), &mut out, &mut err);
    (code, String::from_utf8(out).expect("UTF-8"), String::from_utf8(err).expect("UTF-8"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn generate_is_one_object_with_every_field() {
    let (code, out, err) = call(&["--loud", "generate"], r#"{"prompt":"a b"}"#);
    let mut answer = lines(&out).remove(0);
    assert!(answer["latency"].as_u64().is_some(), "{answer}");
    answer["latency"] = 0.into();
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        answer,
        json!({
            "content": "A B", "tokens_used": 7, "input_tokens": 3, "output_tokens": 4, "model": "w-1", "latency": 0,
            "finish_reason": "length", "error": "", "provider": "words",
        })
    );
}

#[test]
fn stream_is_a_chunk_for_each_piece_and_a_last_one() {
    let (code, out, err) = call(&["stream"], r#"{"prompt":"a b c"}"#);
    assert_eq!((code, err.as_str()), (0, ""));
    let told: Vec<(Value, Value, Value, Value)> = lines(&out)
        .into_iter()
        .map(|it| (it["content"].clone(), it["delta"].clone(), it["done"].clone(), it["tokens_used"].clone()))
        .collect();
    let chunk = |content: &str, delta: &str, done: bool, tokens: u64| {
        (json!(content), json!(delta), json!(done), json!(tokens))
    };
    assert_eq!(
        told,
        [
            chunk("a ", "a ", false, 0),
            chunk("a b ", "b ", false, 0),
            chunk("a b c", "c", false, 0),
            chunk("a b c", "", true, 7)
        ]
    );
}

#[test]
fn a_failure_is_told_in_the_answer_and_on_standard_error() {
    let (code, out, err) = call(&["generate"], r#"{"prompt":"a !"}"#);
    assert_eq!((code, err.as_str()), (1, "the model is out\n"));
    let answer = lines(&out).remove(0);
    assert_eq!((&answer["error"], &answer["finish_reason"]), (&json!("the model is out"), &json!("error")));
    let (code, out, err) = call(&["stream"], r#"{"prompt":"a !"}"#);
    assert_eq!((code, err.as_str()), (1, "the model is out\n"));
    let chunks = lines(&out);
    let last = chunks.last().expect("a last chunk");
    assert_eq!(
        (&last["done"], &last["error"], &last["content"]),
        (&json!(true), &json!("the model is out"), &json!("a "))
    );
}

#[test]
fn health_and_version_and_what_is_not_known() {
    assert_eq!(call(&["health"], ""), (0, "OK\n".to_owned(), String::new()));
    assert_eq!(call(&["--loud", "health"], ""), (1, String::new(), "hoarse\n".to_owned()));
    assert_eq!(call(&["--version"], ""), (0, "words 0.1.0\n".to_owned(), String::new()));
    for args in [&["dance"][..], &[], &["--odd", "generate"]] {
        let (code, out, err) = call(args, "{\"prompt\":\"x\"}");
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains("unknown") || err.contains("no command"), "{err}");
    }
    let (code, out, err) = call(&["generate"], "{");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("cannot be read"), "{err}");
}

#[test]
fn a_reader_that_leaves_is_no_failure_to_talk_about() {
    /// Accepts one line and then fails.
    struct Short(usize);
    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            self.0 -= 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut err = Vec::new();
    let args = ["stream".to_owned()];
    let mut stdin: &[u8] = br#"{"prompt":"a b c"}"#;
    let code = serve(&mut Words { loud: false }, &args, &mut stdin, &mut Short(1), &mut err);
    assert_eq!((code, err), (1, Vec::new()));
}
