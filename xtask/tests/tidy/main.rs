//! Tidy rules: what must hold for the source tree itself.
//!
//! Each rule is a function from files to violations, so that a test beside it can show that it is able to fail. The
//! tests in this file run the rules over the workspace. A violation names the place and says what to do.

mod catalogue;
mod crates;
mod docs;
mod doors;
mod facade;
mod flags;
mod floor_plan;
mod layers;
mod names;
mod purity;
mod source;
mod streams;
mod type_names;
mod voice;
mod whitespace;

use xtask::tree::{self, File, Violation, files};

/// Fails with all violations, one a line.
#[track_caller]
fn report(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} violation(s):\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn thinking_crates_do_not_touch_the_outside() {
    report(&purity::outside(&files()));
}

#[test]
fn thinking_crates_use_listed_dependencies_only() {
    report(&purity::dependencies(&files()));
}

#[test]
fn crates_depend_on_each_other_as_designed() {
    report(&crates::arrows(&files()));
}

#[test]
fn folders_of_the_runtime_use_each_other_in_one_direction() {
    report(&layers::folders(&files()));
}

#[test]
fn the_library_reads_variables_at_its_doors_only() {
    report(&doors::reads(&files()));
}

#[test]
fn processes_are_started_in_one_place() {
    report(&crates::spawners(&files()));
}

#[test]
fn the_command_writes_to_its_streams_in_one_module() {
    report(&streams::outside_ui(&files()));
}

#[test]
fn providers_are_named_in_their_folders_only() {
    report(&names::outside_their_folders(&files()));
}

#[test]
fn our_flags_are_written_by_the_command_only() {
    let files = files();
    assert!(flags::ours(&files).len() > 50, "the arguments of the command are found");
    report(&flags::outside_the_command(&files));
}

#[test]
fn the_list_of_providers_is_the_folders() {
    let built_in: Vec<&str> = bowline_providers::catalogue::built_in().map(|known| &*known.name).collect();
    report(&catalogue::folders(&files(), &built_in));
    bowline_providers::catalogue::check().expect("every manifest is valid");
}

#[test]
fn provider_folders_have_one_floor_plan() {
    report(&floor_plan::modules(&files()));
}

#[test]
fn every_module_says_what_it_is_for() {
    report(&source::module_docs(&files()));
}

#[test]
fn no_file_is_too_long() {
    report(&source::length(&files()));
}

#[test]
fn nothing_is_ignored_allowed_or_left_for_later() {
    report(&source::leftovers(&files()));
}

#[test]
fn the_documents_exist() {
    report(&docs::existence(&files()));
}

#[test]
fn links_in_documents_resolve() {
    report(&docs::links(&files()));
}

#[test]
fn modules_on_the_map_exist() {
    report(&docs::modules(&files()));
}

#[test]
fn commands_in_documents_exist() {
    use clap::CommandFactory;
    let xtask = xtask::args::Args::command();
    let xtask: Vec<String> = xtask.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let files = files();
    report(&docs::commands(&files, "cargo xtask", &xtask));
    let bowline = docs::subcommands(&files, "crates/cli/src/");
    if !bowline.is_empty() {
        report(&docs::commands(&files, "bowline", &bowline));
    }
}

#[test]
fn text_files_are_clean() {
    report(&whitespace::clean(&files()));
}

#[test]
fn types_of_public_signatures_have_a_name_in_the_library() {
    let (exported, unnamed) = facade::unnamed(&files());
    assert!(exported > 200, "the exports of the library are found");
    report(&unnamed);
}

#[test]
fn type_names_are_unique_in_their_crate() {
    report(&type_names::shared(&files()));
}

#[test]
fn public_type_names_have_two_words() {
    report(&type_names::vague(&files()));
}

#[test]
fn documents_and_comments_name_the_actor() {
    let files = files();
    report(&voice::idiom(&files));
    report(&voice::verbs(&files));
    report(&voice::subjects(&files));
}
