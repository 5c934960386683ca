//! The program: its commands, streams and exit codes.

use std::io::{Read, Write};
use std::process::ExitCode;

use crate::clock::Stopwatch;
use crate::respond::Say;
use crate::{Error, Provider, Request};

/// Success.
const WELL: u8 = 0;
/// The provider could not answer, or is not healthy.
const FAILED: u8 = 1;
/// The request or the command line is invalid.
const USAGE: u8 = 2;

/// Runs the program: parses the command line, reads standard input, answers, and returns the exit code.
pub fn main(provider: &mut impl Provider) -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (mut stdin, mut stdout, mut stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    ExitCode::from(serve(provider, &args, &mut stdin, &mut stdout, &mut stderr))
}

/// Executes the arguments, and returns the exit code. For tests; a program calls [`main`].
pub fn serve(
    provider: &mut impl Provider,
    args: &[String],
    stdin: &mut dyn Read,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8 {
    match command(provider, args, stdin, stdout) {
        Ok(()) => WELL,
        Err((code, error)) => {
            // There is no other place to report a closed standard error, and a reader that left needs no report.
            if !error.gone {
                let _ = writeln!(stderr, "{error}");
            }
            code
        }
    }
}

fn command(
    provider: &mut impl Provider,
    args: &[String],
    stdin: &mut dyn Read,
    stdout: &mut dyn Write,
) -> Result<(), (u8, Error)> {
    let usage = |error: Error| (USAGE, error);
    let Some((word, before)) = args.split_last() else {
        return Err(usage(Error::new("no command: generate, stream and health are known")));
    };
    for argument in before {
        provider.argument(argument).map_err(usage)?;
    }
    let written = |out: &mut dyn Write, text: &str| {
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|_| (FAILED, Error::gone()))
    };
    match word.as_str() {
        "generate" | "stream" => {
            let mut text = Vec::new();
            stdin.read_to_end(&mut text).map_err(|error| (FAILED, error.into()))?;
            let request = Request::parse(&text).map_err(usage)?;
            let form = if word == "stream" { Form::Chunks } else { Form::Object };
            answer(provider, &request, form, stdout).map_err(|error| (FAILED, error))
        }
        "health" => {
            let said = provider.health().map_err(|error| (FAILED, error))?;
            written(stdout, &said)
        }
        "--version" | "-V" => written(stdout, &format!("{} {}", provider.name(), provider.version())),
        "--help" | "-h" => written(
            stdout,
            &format!(
                "usage: {} generate|stream|health\n\nA JSON request is read from standard input.",
                provider.name()
            ),
        ),
        other => Err(usage(Error::new(format!(
            "unknown command `{other}`: generate, stream and health are known"
        )))),
    }
}

/// The form of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    Chunks,
}

fn answer(
    provider: &impl Provider,
    request: &Request,
    form: Form,
    stdout: &mut dyn Write,
) -> Result<(), Error> {
    let time = Stopwatch::start();
    // One of the two has the output: the chunks as they arrive, or the object at the end.
    let (mut sink, mut streamed) = (Vec::new(), &mut *stdout);
    let mut say = match form {
        Form::Chunks => Say::in_chunks(&mut streamed),
        Form::Object => Say::together(),
    };
    let ended = provider.answer(request, &mut say);
    if let Err(error) = &ended
        && error.gone
    {
        return Err(error.clone());
    }
    say.end(&ended, provider.name(), time.nanos(), &mut sink)?;
    stdout.write_all(&sink).and_then(|()| stdout.flush()).map_err(|_| Error::gone())?;
    ended.map(|_| ())
}

#[cfg(test)]
mod tests;
