//! Simple commands: assignments, words and redirections.

use brush_parser::ast::{
    Assignment, AssignmentName, AssignmentValue, CommandPrefixOrSuffixItem, IoFileRedirectKind,
    IoFileRedirectTarget, IoRedirect, ProcessSubstitutionKind, RedirectList, SimpleCommand, SourceLocation,
    SubshellCommand,
};

use super::ScriptWalker;
use crate::policy::shell::fields::ShellWord;
use crate::policy::shell::word::WordSyntax;
use crate::policy::shell::{CommandInput, ShellAct, ShellCommand, UNKNOWN, builtins};

impl ScriptWalker<'_> {
    pub(super) fn simple(&mut self, command: &SimpleCommand) {
        let span = self.span(command.location().as_ref());
        let (mut words, mut assigned, mut input) = (Vec::new(), Vec::new(), self.input.clone());
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    assigned.extend(self.assignment(assignment));
                }
                other @ (CommandPrefixOrSuffixItem::IoRedirect(_)
                | CommandPrefixOrSuffixItem::Word(_)
                | CommandPrefixOrSuffixItem::ProcessSubstitution(..)) => {
                    self.item(other, &mut words, &mut input);
                }
            }
        }
        if let Some(name) = &command.word_or_name {
            words.extend(self.expand(name));
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut words, &mut input);
        }
        // In front of a program, assignments hold for that program only; the judge looks at them there.
        if words.is_empty() {
            for (name, value) in &assigned {
                self.state.set(name, Some(value.text.clone()));
            }
        }
        // `> file` alone empties the file. The redirection is an act already.
        if words.is_empty() && assigned.is_empty() {
            return;
        }
        // A `cd` in front of other words changes nothing that they see.
        let act = ShellCommand { words, assigned, input, dirs: self.dirs(), span };
        builtins::apply(&act.words, self.state);
        self.sink.act(ShellAct::Command(act));
    }

    fn item(
        &mut self,
        item: &CommandPrefixOrSuffixItem,
        words: &mut Vec<ShellWord>,
        input: &mut CommandInput,
    ) {
        match item {
            CommandPrefixOrSuffixItem::Word(word) => words.extend(self.expand(word)),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                // Of `a=(1 2)` the word has no more than the text.
                if let AssignmentValue::Array(_) = assignment.value {
                    self.assignment(assignment);
                    words.push(ShellWord::known(word.value.clone(), self.span(word.loc.as_ref())));
                } else {
                    words.extend(self.expand(word));
                }
            }
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                if let Some(new) = self.redirect(redirect) {
                    *input = new;
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                let span = self.span(subshell.location().as_ref());
                self.process(kind, subshell);
                // The path of a pipe: its content is not known.
                words.push(ShellWord { splits: false, ..ShellWord::unknown(span) });
            }
        }
    }

    fn process(&mut self, kind: &ProcessSubstitutionKind, subshell: &SubshellCommand) {
        let input = match kind {
            ProcessSubstitutionKind::Read => CommandInput::Inherited,
            // `cmd > >(sh)` runs what `cmd` prints, like a pipe.
            ProcessSubstitutionKind::Write => CommandInput::Piped,
        };
        self.apart(|walker| walker.with_input(input, |walker| walker.list(&subshell.list)));
    }

    fn assignment(&mut self, assignment: &Assignment) -> Option<(String, ShellWord)> {
        let name = match &assignment.name {
            AssignmentName::VariableName(name) => name.clone(),
            AssignmentName::ArrayElementName(name, index) => {
                self.scan(index);
                self.state.set(name, None);
                name.clone()
            }
        };
        match &assignment.value {
            AssignmentValue::Scalar(word) => {
                let mut value = self.value(word);
                if assignment.append {
                    let before = self.state.value(&name).unwrap_or_else(|| UNKNOWN.to_string());
                    value.text.insert_str(0, &before);
                }
                // Elements are not followed: `$a` is the first one, whichever was set last.
                if let AssignmentName::ArrayElementName(..) = assignment.name {
                    value.text = UNKNOWN.to_string();
                }
                Some((name, value))
            }
            AssignmentValue::Array(items) => {
                for (key, word) in items {
                    if let Some(key) = key {
                        self.value(key);
                    }
                    self.expand(word);
                }
                self.state.set(&name, None);
                Some((name, ShellWord::unknown(self.span(Some(&assignment.loc)))))
            }
        }
    }

    /// Walks the redirections of a compound command and returns its input.
    pub(super) fn redirects(&mut self, list: Option<&RedirectList>) -> CommandInput {
        let mut input = self.input.clone();
        for redirect in list.iter().flat_map(|list| &list.0) {
            if let Some(new) = self.redirect(redirect) {
                input = new;
            }
        }
        input
    }

    /// Walks a redirection and returns the input of the command, if it sets one.
    fn redirect(&mut self, redirect: &IoRedirect) -> Option<CommandInput> {
        match redirect {
            IoRedirect::File(_, kind, target) => self.file(kind, target),
            IoRedirect::HereDocument(_, document) => {
                let span = self.span(document.doc.loc.as_ref());
                // After `<<'END'` the body is taken as it is; after `<<END` it may run commands.
                if !document.requires_expansion {
                    return Some(CommandInput::Text(Some(document.doc.value.clone()), span));
                }
                let (reading, span) = self.read(&document.doc, WordSyntax::Document);
                let text = super::joined(&reading, None);
                Some(CommandInput::Text((!text.contains(UNKNOWN)).then_some(text), span))
            }
            IoRedirect::HereString(_, word) => {
                let value = self.value(word);
                Some(CommandInput::Text(value.is_known().then(|| value.text.clone()), value.span))
            }
            IoRedirect::OutputAndError(word, _) => {
                self.write(word);
                None
            }
        }
    }

    fn write(&mut self, word: &brush_parser::ast::Word) {
        for target in self.expand(word) {
            self.sink.act(ShellAct::Write(target, self.dirs()));
        }
    }

    fn file(&mut self, kind: &IoFileRedirectKind, target: &IoFileRedirectTarget) -> Option<CommandInput> {
        use IoFileRedirectKind as Kind;
        let reads = matches!(kind, Kind::Read | Kind::ReadAndWrite | Kind::DuplicateInput);
        match target {
            // `2>&1`: the file behind the descriptor was judged where it was opened.
            IoFileRedirectTarget::Fd(_) => None,
            IoFileRedirectTarget::ProcessSubstitution(direction, subshell) => {
                self.process(direction, subshell);
                reads.then_some(CommandInput::Piped)
            }
            IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                let descriptor = word.value.trim_end_matches('-').chars().all(|digit| digit.is_ascii_digit());
                let duplicates = matches!(kind, Kind::DuplicateInput | Kind::DuplicateOutput);
                if duplicates && descriptor {
                    // Which file that descriptor is, is not followed.
                    return reads.then_some(CommandInput::Piped);
                }
                if reads {
                    for target in self.expand(word) {
                        self.sink.act(ShellAct::Read(target, self.dirs()));
                    }
                }
                if !matches!(kind, Kind::Read | Kind::DuplicateInput) {
                    self.write(word);
                }
                reads.then_some(CommandInput::Piped)
            }
        }
    }
}
