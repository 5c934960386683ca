//! What is said about the failures of real programs, and of made-up ones.

use proptest::prelude::*;

use super::*;

mod printed;

fn now() -> Moment {
    Moment::utc("2026-11-15T08:00:00Z".parse().expect("an instant"))
}

fn of_text(text: &str) -> Failure {
    classify(&Evidence { text, exit: Some(Exit::Code(1)), ..Evidence::default() }, &now())
}

fn of_report(report: &Report) -> Failure {
    classify(&Evidence { report: Some(report), ..Evidence::default() }, &now())
}

/// `category/code`, which reads better in a table than two enums do.
fn verdict(failure: &Failure) -> String {
    assert_eq!(failure.retry, failure.category.may_retry());
    assert_eq!(failure.fallback, failure.category.may_fall_back());
    format!("{}/{}", failure.category, failure.code)
}

#[track_caller]
fn check(failure: &Failure, expect: &str) {
    assert_eq!(verdict(failure), expect, "{}", failure.message);
}

/// The tables of spec 000, copied from its text rather than from ours.
const SPEC: &[(&str, &str)] = &[
    (
        "quota",
        "insufficient_quota quota_exceeded billing_hard_limit RESOURCE_EXHAUSTED credit_limit usage_limit",
    ),
    ("rate_limit", "rate_limit rate.limit RATE_LIMIT_EXCEEDED too_many_requests 429 overloaded throttl*"),
    (
        "authentication",
        "invalid_api_key unauthorized UNAUTHENTICATED PERMISSION_DENIED authentication_failed not_authenticated 401 403",
    ),
    ("validation", "invalid_request malformed bad_request validation_error invalid_parameter 400"),
    (
        "network",
        "ECONNRESET ETIMEDOUT ENOTFOUND ECONNREFUSED network_error connection_failed DEADLINE_EXCEEDED socket_hang_up",
    ),
    ("server", "internal_server_error service_unavailable bad_gateway 500 502 503 504"),
    ("timeout", "timed_out timeout SIGTERM SIGKILL"),
    ("not_found", "command_not_found ENOENT not_found model_not_found 404"),
    ("configuration", "not_configured missing_config invalid_config cli_not_installed"),
];

#[test]
fn every_pattern_of_the_adapter_protocol_with_every_separator() {
    for (category, patterns) in SPEC {
        for pattern in patterns.split(' ') {
            let system_name =
                ["ECONN", "ETIMED", "ENO", "SIG"].iter().any(|start| pattern.starts_with(start));
            for separator in ["_", " ", "-", ".", ""] {
                let word = pattern.replace(['_', '.'], separator).replace('*', "ing");
                let mut spellings = vec![word.clone()];
                if !system_name {
                    spellings.extend([word.to_lowercase(), word.to_uppercase()]);
                }
                for spelling in spellings {
                    let text = format!("Error: {spelling} occurred");
                    assert_eq!(of_text(&text).category.as_str(), *category, "{text}");
                }
            }
        }
    }
}

#[test]
fn the_origin_of_the_protocol_knew_four_more() {
    check(&of_text("CreditsError: none left"), "quota/billing");
    check(&of_text("No payment method. Add one here."), "quota/billing");
    check(&of_text("0 credentials"), "configuration/bad_config");
    check(&of_text("there are no credentials"), "configuration/bad_config");
    check(&of_text("10 credentials"), "unknown/unknown");
}

#[test]
fn categories_are_tried_in_the_order_of_the_table() {
    check(&of_text("429 insufficient_quota"), "quota/quota_exhausted");
    check(&of_text("429 unauthorized"), "rate_limit/rate_limited");
    check(&of_text("unauthorized: bad request"), "authentication/invalid_credentials");
    check(&of_text("400 ECONNRESET"), "validation/invalid_request");
    check(&of_text("ENOTFOUND 503"), "network/connection_failed");
    check(&of_text("504 timeout"), "server/server_error");
    check(&of_text("timeout: not found"), "timeout/timed_out");
    check(&of_text("not found, not configured"), "not_found/not_found");
}

#[test]
fn numbers_are_words_and_system_names_have_one_spelling() {
    for text in [
        "error 4290",
        "took 1500ms",
        "took 500ms",
        "id 5f400a401b403c404d429e500f502a503b504c0000000000000000000000000000",
        "listening on 127.0.0.1:5004",
        "enoent",
        "sigterm",
        "rate of the limit",
        "rate__limit",
    ] {
        check(&of_text(text), "unknown/unknown");
    }
    check(&of_text("connect econnrefused 127.0.0.1:8080"), "network/connection_failed");
    check(&of_text("read econnreset"), "network/connection_lost");
    for text in [
        "getaddrinfo EAI_AGAIN api.example.com",
        "curl: (6) Could not resolve host: api.example.com",
        "ssh: Could not resolve hostname x: Temporary failure in name resolution",
        "connect EHOSTUNREACH 10.0.0.1:443",
    ] {
        let failure = of_text(text);
        check(&failure, "network/connection_failed");
        assert!(failure.retry, "{text}");
    }
    check(&of_text("HTTP 429: slow down"), "rate_limit/rate_limited");
    check(&of_text("status=500"), "server/server_error");
    // By the rule of the protocol; accepted.
    check(&of_text("waited 500 ms"), "server/server_error");
}

#[test]
fn the_contract_fixtures_of_the_protocol() {
    let failure = of_text("Error: rate_limit_exceeded - Too many requests. Please retry after 30 seconds.");
    check(&failure, "rate_limit/rate_limited");
    assert_eq!(failure.retry_after_ms, Some(Millis(30_000)));
    check(
        &of_text("Error: RESOURCE_EXHAUSTED: Quota exceeded for requests per day."),
        "quota/quota_exhausted",
    );
    check(&of_text("Error: Request timed out after 120000ms"), "timeout/timed_out");
}

#[test]
fn a_status_decides_unless_the_dialect_does() {
    let of = |status, message: &str| of_report(&Report { status: Some(status), ..Report::of(message) });
    check(&of(400, "hm"), "validation/invalid_request");
    check(&of(400, "Prompt is too long"), "validation/context_overflow");
    check(&of(400, "rate limit"), "validation/invalid_request");
    check(&of(401, "hm"), "authentication/invalid_credentials");
    check(&of(401, "Not logged in · Please run /login"), "authentication/not_logged_in");
    check(&of(400, "Billing hard limit has been reached."), "quota/billing");
    check(&of(402, "hm"), "quota/billing");
    check(&of(403, "This API method requires billing to be enabled."), "quota/billing");
    check(&of(403, "hm"), "authentication/forbidden");
    check(&of(404, "hm"), "not_found/not_found");
    check(&of(404, "There's an issue with the selected model (x)."), "not_found/model_not_found");
    check(&of(408, "hm"), "timeout/timed_out");
    check(&of(413, "hm"), "validation/request_too_large");
    check(&of(422, "hm"), "validation/invalid_request");
    check(&of(429, "hm"), "rate_limit/rate_limited");
    check(&of(429, "You've reached your rate limit"), "rate_limit/rate_limited");
    check(&of(429, "You've hit your 5-hour limit · resets 9:45am (UTC)"), "quota/usage_limit");
    check(
        &of(429, "You exceeded your current quota, please check your plan and billing details."),
        "quota/quota_exhausted",
    );
    check(&of(429, "Please check your billing"), "quota/billing");
    // A quota of a minute is told in the words of a quota, and with a wait.
    check(&of(429, "Quota exceeded for requests. Please retry in 2s."), "rate_limit/rate_limited");
    check(
        &of(429, "Resource has been exhausted (e.g. check quota). Retry after 5 minutes"),
        "rate_limit/rate_limited",
    );
    check(&of(429, "Quota exceeded for requests. Please retry in 6m."), "quota/quota_exhausted");
    check(&of(429, "Quota exceeded for RequestsPerDay. Please retry in 2s."), "quota/quota_exhausted");
    check(&of(429, "insufficient_quota, retry after 2s"), "quota/quota_exhausted");
    check(&of(429, "You've hit your weekly limit, try again in 2s"), "quota/usage_limit");
    check(&of(500, "hm"), "server/server_error");
    check(&of(503, "Selected model is at capacity."), "server/overloaded");
    check(&of(529, "hm"), "server/overloaded");
    check(&of(529, "API Error: Repeated 529 Overloaded errors"), "server/overloaded");
    check(&of(302, "ECONNREFUSED"), "network/connection_failed");
}

#[test]
fn what_the_dialect_says_wins_and_the_rest_is_filled_in() {
    let billing = Report {
        category: Some(Category::Quota),
        status: Some(400),
        ..Report::of("Credit balance is too low")
    };
    check(&of_report(&billing), "quota/billing");
    let only_code = Report { code: Some(Code::ContextOverflow), status: Some(500), ..Report::of("hm") };
    check(&of_report(&only_code), "validation/context_overflow");
    let homeless = Report { code: Some(Code::Overloaded), status: Some(529), ..Report::of("overloaded") };
    check(&of_report(&homeless), "server/overloaded");
    let newer = Report { code: Some(Code::from("moon_phase")), ..Report::of("429") };
    check(&of_report(&newer), "rate_limit/moon_phase");
    let both = Report { category: Some(Category::Unknown), code: Some(Code::Cancelled), ..Report::of("429") };
    check(&of_report(&both), "unknown/cancelled");
}

#[test]
fn the_message_is_believed_before_standard_error() {
    let report = Report::of("[API Error: Connection error. (cause: fetch failed)]");
    let noisy = Evidence {
        report: Some(&report),
        text: "warning: 401 once",
        exit: Some(Exit::Code(1)),
        timed_out: false,
    };
    check(&classify(&noisy, &now()), "network/connection_failed");
    let silent = Report::of("it did not work");
    let filled = Evidence { report: Some(&silent), ..noisy };
    let failure = classify(&filled, &now());
    check(&failure, "authentication/invalid_credentials");
    assert_eq!(failure.message, "it did not work");
    assert_eq!(failure.stderr_tail.as_deref(), Some("warning: 401 once"));
    assert_eq!(failure.exit, Some(Exit::Code(1)));
}

#[test]
fn our_deadline_decides_outright() {
    let report = Report { category: Some(Category::Quota), ..Report::of("Reconnecting... 401") };
    let late = |report, text| {
        classify(&Evidence { report, text, exit: Some(Exit::Signal(15)), timed_out: true }, &now())
    };
    check(&late(Some(&report), ""), "timeout/timed_out");
    assert_eq!(late(Some(&report), "").message, "timed out: Reconnecting... 401");
    assert_eq!(late(None, " still waiting\n").message, "timed out: still waiting");
    assert_eq!(late(None, "").message, "timed out");
}

#[test]
fn exit_codes_and_signals_speak_last() {
    let of = |exit, text| classify(&Evidence { text, exit: Some(exit), ..Evidence::default() }, &now());
    let table = [
        (Exit::Signal(15), "timeout/killed", "ended by SIGTERM"),
        (Exit::Signal(9), "timeout/killed", "ended by SIGKILL"),
        (Exit::Signal(1), "timeout/killed", "ended by SIGHUP"),
        (Exit::Code(143), "timeout/killed", "exit code 143"),
        (Exit::Code(137), "timeout/killed", "exit code 137"),
        (Exit::Code(129), "timeout/killed", "exit code 129"),
        (Exit::Signal(2), "unknown/cancelled", "ended by SIGINT"),
        (Exit::Code(130), "unknown/cancelled", "exit code 130"),
        (Exit::Signal(11), "unknown/crashed", "ended by SIGSEGV"),
        (Exit::Signal(6), "unknown/crashed", "ended by SIGABRT"),
        (Exit::Signal(7), "unknown/crashed", "ended by SIGBUS"),
        (Exit::Signal(4), "unknown/crashed", "ended by SIGILL"),
        (Exit::Signal(8), "unknown/crashed", "ended by SIGFPE"),
        (Exit::Code(101), "unknown/crashed", "exit code 101"),
        (Exit::Code(134), "unknown/crashed", "exit code 134"),
        (Exit::Code(139), "unknown/crashed", "exit code 139"),
        (Exit::Code(127), "not_found/not_installed", "exit code 127"),
        (Exit::Code(126), "configuration/bad_config", "exit code 126"),
        (Exit::Code(1), "unknown/unknown", "exit code 1"),
        (Exit::Code(0), "unknown/unknown", "exit code 0"),
        (Exit::Code(145), "unknown/unknown", "exit code 145"),
        (Exit::Signal(64), "unknown/unknown", "ended by signal 64"),
        (Exit::Signal(i32::MIN), "unknown/unknown", "ended by signal -2147483648"),
    ];
    for (exit, expect, message) in table {
        let failure = of(exit, "");
        check(&failure, expect);
        assert_eq!(failure.message, message);
        assert_eq!(failure.exit, Some(exit));
        assert_eq!(failure.stderr_tail, None);
    }
    check(&of(Exit::Code(143), "401"), "authentication/invalid_credentials");
    check(&of(Exit::Signal(15), "Request timed out"), "timeout/timed_out");
    check(&of(Exit::Signal(15), "Operation cancelled."), "timeout/killed");
    check(&of(Exit::Code(130), "Operation cancelled."), "unknown/cancelled");
    check(&of(Exit::Code(1), "Operation cancelled."), "unknown/cancelled");
    check(&of(Exit::Code(127), "sh: 1: agent: not found"), "not_found/not_installed");
    check(&of(Exit::Code(127), "env: 'node': No such file or directory"), "not_found/not_installed");
    assert_eq!(classify(&Evidence::default(), &now()).message, "failed without an error message");
}

#[test]
fn waits_and_resets() {
    let later: Timestamp = "2026-11-15T08:00:30Z".parse().expect("an instant");
    // report, wait, reset.
    let table = [
        (Report::of("rate limit"), Some(1000), None),
        (Report::of("rate limit, retry after 2s"), Some(2000), None),
        (Report { retry_after: Some(Millis(7)), ..Report::of("rate limit, retry after 2s") }, Some(7), None),
        (Report { resets_at: Some(later), ..Report::of("rate limit") }, Some(30_000), Some(later)),
        (
            Report { resets_at: Some(Timestamp::EPOCH), ..Report::of("overloaded") },
            Some(1000),
            Some(Timestamp::EPOCH),
        ),
        (Report::of("rate limit, resets in 30s"), Some(30_000), Some(later)),
        (Report::of("usage limit, resets in 30s"), None, Some(later)),
        (Report::of("usage limit, retry after 30s"), Some(30_000), None),
        (Report::of("bad gateway"), None, None),
        (Report::of("bad gateway, try again in 1 minute"), Some(60_000), None),
    ];
    for (report, wait, reset) in table {
        let failure = of_report(&report);
        assert_eq!(failure.retry_after_ms, wait.map(Millis), "{}", report.message);
        assert_eq!(failure.resets_at, reset, "{}", report.message);
    }
    let codex = "You’ve hit your usage limit. Upgrade to Pro or try again at May 18th, 2033 3:33 AM.";
    let failure = of_report(&Report::of(codex));
    check(&failure, "quota/usage_limit");
    assert_eq!(failure.resets_at.map(|reset| reset.to_string()).as_deref(), Some("2033-05-18T03:33:00Z"));
    assert_eq!(failure.retry_after_ms, None);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let failure = of_text(&"é".repeat(3000));
    assert_eq!(failure.message, "é".repeat(500));
    assert_eq!(failure.stderr_tail, Some("é".repeat(1024)));
    let odd = of_text(&format!("{}x", "é".repeat(3000)));
    assert_eq!(odd.stderr_tail, Some(format!("{}x", "é".repeat(1023))));
    assert_eq!(of_text(" \n").stderr_tail, None);
    assert_eq!(of_text(" \n").message, "exit code 1");
}

proptest! {
    #[test]
    fn nothing_that_a_program_prints_makes_us_panic(
        message in "\\PC{0,80}|(retry|after|resets?|at|in|until|wait| |:|-|[0-9]{1,20}|[smhd]|am|pm|Mon|Feb|\\(|UTC|é){0,12}",
        text in any::<String>(),
        status in any::<Option<u16>>(),
        code in any::<i32>(),
        is_signal in any::<bool>(),
        timed_out in any::<bool>(),
        millis in any::<i64>(),
        wait in any::<Option<u64>>(),
        reset in any::<Option<i64>>(),
    ) {
        let now = Moment::utc(Timestamp::from_millis(millis));
        let _ = (retry_after(&message), retry_after(&text), reset_time(&message, &now), reset_time(&text, &now));
        let report = Report {
            status,
            retry_after: wait.map(Millis),
            resets_at: reset.map(Timestamp::from_millis),
            ..Report::of(message)
        };
        let exit = Some(if is_signal { Exit::Signal(code) } else { Exit::Code(code) });
        let failure = classify(&Evidence { report: Some(&report), text: &text, exit, timed_out }, &now);
        verdict(&failure);
        prop_assert!(failure.message.chars().count() <= MESSAGE_CHARS);
        prop_assert!(failure.stderr_tail.is_none_or(|tail| tail.len() <= TAIL_BYTES && text.ends_with(&tail)));
    }
}
