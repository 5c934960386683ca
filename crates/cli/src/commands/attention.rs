//! Waits for the commands of `attention.command` before this process ends, which would end them.

use bowline::attention::Attention;

use crate::ui::Ui;

/// Waits at most ten seconds, and prints why one of them failed.
pub(crate) async fn settle(attention: &Attention) {
    if let Some(why) = attention.finished().await {
        Ui::new().warning(&why);
    }
}
