//! Spans of time and categories as people say them, for reasons.

use bowline_protocol::{Category, Millis};

/// Returns a category in plain words.
pub(crate) fn category(category: Category) -> String {
    category.as_str().replace('_', " ")
}

/// Writes a span of time with the two units that matter.
pub(crate) fn span(span: Millis) -> String {
    let seconds = span.0 / 1000;
    match seconds {
        0..=9 if !span.0.is_multiple_of(1000) => format!("{:.1} s", span.0 as f64 / 1000.0),
        0..=59 => format!("{seconds} s"),
        60..=3599 => two(seconds, 60, "min", "s"),
        3600..=86_399 => two(seconds / 60, 60, "h", "min"),
        _ => two(seconds / 3600, 24, "d", "h"),
    }
}

fn two(count: u64, of: u64, large: &str, small: &str) -> String {
    match (count / of, count % of) {
        (whole, 0) => format!("{whole} {large}"),
        (whole, rest) => format!("{whole} {large} {rest} {small}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_at_most_two_units() {
        for (millis, text) in [
            (0, "0 s"),
            (700, "0.7 s"),
            (2_000, "2 s"),
            (30_400, "30 s"),
            (90_000, "1 min 30 s"),
            (14_400_000, "4 h"),
            (14_390_000, "3 h 59 min"),
            (100_000_000, "1 d 3 h"),
        ] {
            assert_eq!(span(Millis(millis)), text);
        }
    }
}
