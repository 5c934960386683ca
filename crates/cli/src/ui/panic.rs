//! Reports a panic in the form of every other error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use super::Ui;
use crate::human::error_text;

/// Reports a panic and its place. With `RUST_BACKTRACE=1`, adds the backtrace.
pub(crate) fn report(panic: &PanicHookInfo<'_>) {
    // Before the text: a question may be open.
    super::keyboard::restore();
    let why = panic.payload_as_str().unwrap_or("no panic message");
    let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    let cause = format!("{why}{}", place.unwrap_or_default());
    let hint = "the work may be incomplete; please report this bug with the steps that led to it".to_owned();
    let mut text = error_text("internal error: this is a bug in bowline", &[cause], &[hint]);
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("{backtrace}\n"));
    }
    Ui::new().lines(&text);
}
