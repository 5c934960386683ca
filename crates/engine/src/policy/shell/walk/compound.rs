//! Compound commands: groups, loops, branches, functions and tests.

use brush_parser::ast::{
    CaseClauseCommand, CompoundCommand, CompoundList, ExtendedTestExpr, ForClauseCommand, FunctionDefinition,
    IfClauseCommand,
};

use super::ScriptWalker;
use crate::policy::shell::CommandInput;

/// The most values of a loop that are walked one by one.
const MOST_VALUES: usize = 8;

impl ScriptWalker<'_> {
    pub(super) fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => self.arithmetic(&arithmetic.expr.value),
            CompoundCommand::ArithmeticForClause(clause) => {
                for part in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.arithmetic(&part.value);
                }
                self.looped(|walker| walker.list(&clause.body.list));
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.apart(|walker| walker.list(&subshell.list)),
            CompoundCommand::ForClause(clause) => self.for_clause(clause),
            CompoundCommand::CaseClause(clause) => self.case(clause),
            CompoundCommand::IfClause(clause) => self.if_clause(clause),
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.looped(|walker| {
                    walker.list(&clause.0);
                    walker.list(&clause.1.list);
                });
            }
            // Later commands write its input: `coproc bash` runs what they send.
            CompoundCommand::Coprocess(coprocess) => {
                self.apart(|walker| {
                    walker.with_input(CommandInput::Piped, |walker| walker.command(&coprocess.body));
                });
            }
        }
    }

    /// Looks for code in an expression, and forgets the variables that it may set.
    fn arithmetic(&mut self, text: &str) {
        self.scan(text);
        // `x=1`, `x+=1` and `x++` set a variable.
        if text.contains(['=', '+', '-']) {
            let names = text.split(|next: char| next != '_' && !next.is_ascii_alphanumeric());
            for name in names.filter(|name| name.starts_with(|first: char| !first.is_ascii_digit())) {
                self.state.set(name, None);
            }
        }
    }

    /// Walks the body of a loop: once with the state before it, and again if a round changes the state of the next.
    fn looped(&mut self, body: impl Fn(&mut Self)) {
        let before = self.state.clone();
        self.perhaps(|walker| body(walker));
        if *self.state != before {
            self.perhaps(|walker| body(walker));
        }
    }

    fn for_clause(&mut self, clause: &ForClauseCommand) {
        let values: Option<Vec<_>> =
            clause.values.as_ref().map(|words| words.iter().flat_map(|word| self.expand(word)).collect());
        // Without `in`, it loops over the arguments of the script.
        let values = values.filter(|values| values.len() <= MOST_VALUES);
        let name = clause.variable_name.as_str();
        match values {
            Some(values) => {
                // Round by round, so that `for f in src /; do rm -r $f; done` is judged with `/` as well.
                for value in values {
                    // A value with a pattern stands for names of files, which are not known.
                    let known = (!value.glob && !value.splits).then_some(value.text);
                    self.looped(|walker| {
                        walker.state.set(name, known.clone());
                        walker.list(&clause.body.list);
                    });
                }
            }
            None => self.looped(|walker| {
                walker.state.set(name, None);
                walker.list(&clause.body.list);
            }),
        }
    }

    fn case(&mut self, clause: &CaseClauseCommand) {
        // `case $(curl …) in` runs a command, and so may a pattern.
        self.value(&clause.value);
        for item in &clause.cases {
            for pattern in &item.patterns {
                self.value(pattern);
            }
            if let Some(list) = &item.cmd {
                self.perhaps(|walker| walker.list(list));
            }
        }
    }

    fn if_clause(&mut self, clause: &IfClauseCommand) {
        // The first condition always runs. Each later one runs only if those before it are false.
        self.list(&clause.condition);
        self.branch(&clause.then);
        for other in clause.elses.iter().flatten() {
            if let Some(condition) = &other.condition {
                self.branch(condition);
            }
            self.branch(&other.body);
        }
    }

    fn branch(&mut self, list: &CompoundList) {
        self.perhaps(|walker| walker.list(list));
    }

    /// Walks the body of a function where it is defined: it runs later, with arguments and an input that are not known.
    pub(super) fn function(&mut self, function: &FunctionDefinition) {
        let before = self.state.clone();
        self.redirects(function.body.1.as_ref());
        self.with_input(CommandInput::Piped, |walker| walker.compound(&function.body.0));
        let names: Vec<String> = self.state.vars.keys().cloned().collect();
        // A call may come at any time from here on, so what the body sets is not known any more.
        for name in names {
            if self.state.vars.get(&name) != before.vars.get(&name) {
                self.state.volatile.insert(name);
            }
        }
        if self.state.dirs != before.dirs {
            self.state.dirs.others = true;
        }
    }

    pub(super) fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner),
            ExtendedTestExpr::UnaryTest(_, word) => drop(self.value(word)),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.value(left);
                self.value(right);
            }
        }
    }
}
