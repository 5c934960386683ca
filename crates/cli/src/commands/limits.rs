//! `bowline limits`: shows the usage limits of accounts, how much is used, and when they reset.

use bowline::detect::{Ask, Surroundings};
use bowline::limits::{self, Limits, Window};
use bowline_protocol::{Millis, Timestamp};
use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;

use crate::args::inspection::LimitsArgs;
use crate::async_runtime;
use crate::commands::account;
use crate::error::{CommandError, Fault};
use crate::ui::Stdout;
use crate::ui::tables::{Layout, TextTable};
use crate::{human, time};

/// Runs the command.
pub(crate) fn run(args: &LimitsArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let (named, profiles) = account::providers(args.provider.as_slice(), args.profile.as_deref())?;
    if let Some(manifest) = named.iter().find(|manifest| manifest.ask.limits.is_none()) {
        let can = catalogue::built_in().filter(|it| it.ask.limits.is_some());
        let can: Vec<&str> = can.map(|it| it.name.as_str()).collect();
        return Err(CommandError::new(
            Fault::Usage,
            format!("{} does not report its limits", manifest.title),
        )
        .hint(format!("providers that report limits: {}", can.join(", "))));
    }
    let can_tell = || bowline::detect::installed().into_iter().filter(|it| it.ask.limits.is_some()).collect();
    let providers: Vec<&'static Manifest> = if named.is_empty() { can_tell() } else { named.clone() };
    let (ask, surroundings) = (Ask::at_length(), Surroundings::from_env());
    let accounts = async_runtime::start()?.block_on(async {
        let asked: Vec<_> = providers
            .iter()
            .map(|manifest| {
                let (manifest, surroundings, ask) = (*manifest, surroundings.clone(), ask.clone());
                let profile = profiles.get(&manifest.name).cloned();
                tokio::spawn(async move { limits::of(manifest, profile.as_ref(), &surroundings, &ask).await })
            })
            .collect();
        let mut accounts = Vec::new();
        for asked in asked {
            accounts.push(asked.await.map_err(|error| {
                CommandError::new(Fault::Internal, "could not query limits").caused_by(error)
            })?);
        }
        Ok::<_, CommandError>(accounts)
    })?;
    if args.json {
        let text = serde_json::to_string_pretty(&accounts).map_err(|error| {
            CommandError::new(Fault::Internal, "could not write the list").caused_by(error)
        })?;
        stdout.print(&format!("{text}\n"))?;
    }
    if let ([manifest], [Limits { trouble: Some(why), .. }]) = (&named[..], &accounts[..]) {
        return Err(CommandError::new(
            Fault::Missing,
            format!("the limits of {} are unknown", manifest.title),
        )
        .caused_by(why.clone())
        .hint(format!("run `bowline doctor {}` for details", manifest.name)));
    }
    if args.json {
        return Ok(());
    }
    if accounts.is_empty() {
        return Err(CommandError::new(Fault::Missing, "no installed agent reports its limits")
            .hint("`bowline doctor` shows which agents are installed"));
    }
    let (now, zone) = (time::now(), jiff::tz::TimeZone::system());
    let layout = stdout.layout();
    accounts.iter().try_for_each(|account| stdout.print_laid_out(&shown(account, now, &zone, layout)))
}

/// Returns the lines about one account.
fn shown(account: &Limits, now: Timestamp, zone: &jiff::tz::TimeZone, layout: Layout) -> String {
    let plan = account.plan.as_ref().map(|plan| format!(" ({plan})")).unwrap_or_default();
    let whose = account::whose(&account.provider, account.profile.as_deref()) + &plan;
    if let Some(why) = &account.trouble {
        let title = layout.paragraph(0, &format!("{whose}: unknown"));
        return format!("{title}{}\n", layout.paragraph(2, why));
    }
    if account.windows.is_empty() {
        return format!("{}\n", layout.paragraph(0, &format!("{whose}: no limits")));
    }
    let rows = account.windows.iter().map(|window| {
        let resets = window.resets_at.map(|at| human::when(at, now, zone)).unwrap_or_default();
        [window.name.clone(), used(window), length(window), resets]
    });
    let table = TextTable::new(["WINDOW", "USED", "OF", "RESETS"], rows).indent(2);
    format!("{}{}\n", layout.paragraph(0, &whose), table.render(layout))
}

fn used(window: &Window) -> String {
    window.used_percent.map_or_else(|| "?".to_owned(), |used| format!("{used:.0} %"))
}

fn length(window: &Window) -> String {
    window.minutes.map(|minutes| Millis(minutes.saturating_mul(60_000)).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_sees_of_an_account() {
        let window = |name: &str, used, minutes, resets: Option<&str>| Window {
            name: name.into(),
            used_percent: used,
            resets_at: resets.map(|at| at.parse().unwrap()),
            minutes,
        };
        let account = Limits {
            provider: "agent".into(),
            profile: None,
            plan: Some("plus".into()),
            windows: vec![
                window("five hour", Some(6.4), Some(300), Some("2026-11-15T09:45:00Z")),
                window("seven day", Some(100.0), Some(10_080), None),
                window("odd", None, Some(90), None),
            ],
            at: None,
            trouble: None,
        };
        let now = "2026-11-15T08:00:00Z".parse().unwrap();
        insta::assert_snapshot!(shown(&account, now, &jiff::tz::TimeZone::UTC, Layout::Pipe), @r"
        agent (plus)
          WINDOW     USED   OF          RESETS
          five hour  6 %    5 h         at 09:45 (in 1 h 45 min)
          seven day  100 %  7 days
          odd        ?      1 h 30 min
        ");
        let unknown =
            Limits { trouble: Some("log in first".into()), windows: Vec::new(), plan: None, ..account };
        assert_eq!(
            shown(&unknown, now, &jiff::tz::TimeZone::UTC, Layout::Pipe),
            "agent: unknown\n  log in first\n\n"
        );
    }
}
