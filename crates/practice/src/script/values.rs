//! The values in directives: texts, numbers, sizes, times, bytes and signals.

use std::time::Duration;

use crate::signals::HostOrder;

/// Reads a text: the rest of the line as it is, or in double quotes with `\n`, `\t`, `\"` and `\\`.
pub(super) fn text(rest: &str) -> Result<String, String> {
    if rest.is_empty() {
        return Err("it needs a text".to_owned());
    }
    if !(rest.len() >= 2 && rest.starts_with('"') && rest.ends_with('"')) {
        return Ok(rest.to_owned());
    }
    let words = words(rest)?;
    // Quotes that open and close more than once are part of the text.
    if words.len() == 1 { Ok(words.concat()) } else { Ok(rest.to_owned()) }
}

/// Splits a text into words; those with spaces are in double quotes.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        if c != '"' {
            let mut word = String::from(c);
            while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
            words.push(word);
            continue;
        }
        let mut word = String::new();
        loop {
            match chars.next() {
                None => return Err("a quote is not closed".to_owned()),
                Some('"') => break,
                Some('\\') => match chars.next() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some(c @ ('"' | '\\')) => word.push(c),
                    other => return Err(format!("`\\{}` is not an escape", other.unwrap_or(' '))),
                },
                Some(c) => word.push(c),
            }
        }
        words.push(word);
    }
    Ok(words)
}

/// Reads a number.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{}` is not a number, or is too large", text.trim()))
}

/// Reads a size: `123`, `64KB`, `2MB`, `1GB`; with `KiB`, `MiB`, `GiB` in powers of two.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text.trim());
    let unit = match unit {
        "" | "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => return Err(format!("`{other}` is not a unit of size: write `2MB`")),
    };
    number::<u64>(digits)?.checked_mul(unit).ok_or_else(|| "that is too much".to_owned())
}

/// Reads a span of time: `2s`, `500ms`, `1m`, or seconds.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let (digits, unit) = split(text);
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        other => return Err(format!("`{other}` is not a unit of time: write `2s` or `500ms`")),
    };
    number::<u64>(digits)?
        .checked_mul(millis)
        .map(Duration::from_millis)
        .ok_or_else(|| "that is too long".to_owned())
}

/// Reads a pace.
pub(super) fn pace(text: &str) -> Result<f64, String> {
    let pace: f64 = number(text)?;
    if (0.0..=1000.0).contains(&pace) { Ok(pace) } else { Err("it is from 0 to 1000".to_owned()) }
}

/// Reads bytes in hexadecimal.
pub(super) fn hex(text: &str) -> Result<Vec<u8>, String> {
    if text.is_empty() {
        return Err("it needs bytes, such as `ff 00`".to_owned());
    }
    let byte = |word: &str| match word.len() {
        2 if !word.starts_with('+') => {
            u8::from_str_radix(word, 16).map_err(|_| format!("`{word}` is not a byte in hexadecimal"))
        }
        _ => Err(format!("`{word}` is not a byte in hexadecimal: write two digits")),
    };
    text.split_whitespace().map(byte).collect()
}

/// Reads a signal, by number or name.
pub(super) fn signal(text: &str) -> Result<i32, String> {
    const NAMES: &[(&str, i32)] = &[
        ("hup", 1),
        ("int", 2),
        ("quit", 3),
        ("abrt", 6),
        ("kill", 9),
        ("segv", 11),
        ("pipe", 13),
        ("term", 15),
        ("stop", 19),
    ];
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_prefix("sig").unwrap_or(&lower);
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    named
        .or_else(|| text.parse().ok().filter(|number| (1..=64).contains(number)))
        .ok_or_else(|| format!("`{text}` is not a signal: write `9` or `sigkill`"))
}

/// Reads an order to stop.
pub(super) fn order(text: &str) -> Result<HostOrder, String> {
    match text {
        "cancel" => Ok(HostOrder::Cancel),
        "steer" => Ok(HostOrder::Steer),
        "set" => Ok(HostOrder::Set),
        "eof" => Ok(HostOrder::EndOfInput),
        _ => signal(text).map(HostOrder::Signal),
    }
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}
