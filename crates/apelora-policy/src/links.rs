//! What rules have to do with each other: references, cycles, and what becomes of a refusal below a `not`.

use std::collections::HashMap;

use crate::check::{Check, Node, What};
use crate::error::{Fault, Problem, Remark, Warning};
use crate::rules::Rule;
use crate::{creds, target};

/// How many levels a rule may have together with those it refers to.
pub(crate) const DEPTH_MAX: usize = 600;
/// How many checks a decision may ask at most.
pub(crate) const COST_MAX: usize = 100_000;

/// What to do about checks that cannot be read and rules that refer to themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// They refuse the files.
    Refuse,
    /// A decision that runs into one is undecided.
    LeaveToJudge,
}

/// Points every reference to its rule, or to the rule for unknown names.
pub(crate) fn resolve(rules: &mut [Rule], by_name: &HashMap<String, usize>, fallback: Option<usize>) {
    for rule in rules {
        rule.node.for_each_check_mut(&mut |check| {
            if let What::Rule { name, rule } = &mut check.what {
                *rule = by_name.get(name).copied().or(fallback);
            }
        });
    }
}

/// Finds what no decision could survive.
pub(crate) fn inspect(rules: &[Rule], strictness: Strictness, problems: &mut Vec<Problem>) {
    if strictness == Strictness::Refuse {
        rules.iter().for_each(|rule| refuse_unreadable(rule, problems));
    }
    let graph: Vec<_> = rules.iter().map(|rule| references(&rule.node)).collect();
    let mut measure = Measure {
        rules,
        graph: &graph,
        strictness,
        states: vec![State::Unseen; rules.len()],
        path: Vec::new(),
        problems,
    };
    for index in 0..rules.len() {
        measure.rule(index, 0);
    }
    refuse_inverted_failures(rules, &graph, problems);
}

fn refuse_unreadable(rule: &Rule, problems: &mut Vec<Problem>) {
    if rule.is_elsewhere() {
        return;
    }
    rule.node.for_each_check(&mut |check, _, _| {
        if let What::Unreadable(fault) = &check.what {
            problems.push(Problem { place: rule.place(), fault: fault.clone().into() });
        }
    });
}

/// A reference from within a rule.
struct Reference {
    to: usize,
    level: usize,
    negated: bool,
}

struct References {
    to: Vec<Reference>,
    checks: usize,
    depth: usize,
}

fn references(node: &Node) -> References {
    let mut found = References { to: Vec::new(), checks: 1, depth: node.depth() };
    node.for_each_check(&mut |check, negated, level| {
        found.checks += 1;
        if let What::Rule { rule: Some(to), .. } = check.what {
            found.to.push(Reference { to, level, negated });
        }
    });
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    OnPath,
    Done { depth: usize, cost: usize },
}

struct Measure<'a> {
    rules: &'a [Rule],
    graph: &'a [References],
    strictness: Strictness,
    states: Vec<State>,
    path: Vec<usize>,
    problems: &'a mut Vec<Problem>,
}

impl Measure<'_> {
    /// Depth and cost of a rule with everything it refers to. `above` bounds the recursion.
    fn rule(&mut self, index: usize, above: usize) -> (usize, usize) {
        match self.states[index] {
            State::Done { depth, cost } => return (depth, cost),
            State::OnPath => {
                self.cycle(index);
                return (0, 0);
            }
            State::Unseen => {}
        }
        let own = &self.graph[index];
        let (mut depth, mut cost) = (own.depth, own.checks);
        if above + depth <= DEPTH_MAX {
            self.states[index] = State::OnPath;
            self.path.push(index);
            for reference in &own.to {
                let (below, more) = self.rule(reference.to, above + reference.level);
                depth = depth.max(reference.level + below);
                cost = cost.saturating_add(more);
            }
            self.path.pop();
        }
        let fault = if above + depth > DEPTH_MAX {
            Some(Fault::ReferencesTooDeep)
        } else if cost > COST_MAX {
            Some(Fault::TooCostly)
        } else {
            None
        };
        if let Some(fault) = fault {
            self.problems.push(Problem { place: self.rules[index].place(), fault });
            // Reported once; the rules above need not complain about it again.
            (depth, cost) = (0, 0);
        }
        self.states[index] = State::Done { depth, cost };
        (depth, cost)
    }

    fn cycle(&mut self, index: usize) {
        if self.strictness == Strictness::LeaveToJudge {
            return;
        }
        let from = self.path.iter().position(|on_path| *on_path == index).unwrap_or(0);
        let names: Vec<_> = self.path[from..]
            .iter()
            .chain(std::iter::once(&index))
            .map(|at| format!("'{}'", self.rules[*at].name))
            .collect();
        let fault = Fault::Cycle(names.join(" refers to "));
        self.problems.push(Problem { place: self.rules[index].place(), fault });
    }
}

/// Refuses what cannot hold for a mistake in its writing, and would hold for everybody because a `not` stands above it:
/// in the same rule, or in one that refers to it.
fn refuse_inverted_failures(rules: &[Rule], graph: &[References], problems: &mut Vec<Problem>) {
    let mut inverted = vec![false; rules.len()];
    let mut open: Vec<usize> =
        graph.iter().flat_map(|own| &own.to).filter(|reference| reference.negated).map(|r| r.to).collect();
    while let Some(index) = open.pop() {
        if !std::mem::replace(&mut inverted[index], true) {
            open.extend(graph[index].to.iter().map(|reference| reference.to));
        }
    }
    for (rule, inverted) in rules.iter().zip(inverted) {
        if let (Node::Broken(why), true) = (&rule.node, inverted) {
            problems.push(Problem { place: rule.place(), fault: Fault::BrokenBelowNot(why.to_string()) });
        }
        rule.node.for_each_check(&mut |check, negated, _| {
            if (negated || inverted) && matches!(check.what, What::Malformed) {
                problems.push(Problem {
                    place: rule.place(),
                    fault: Fault::MalformedBelowNot(check.text.clone()),
                });
            }
        });
    }
}

/// Collects what is allowed and probably not meant. Built-in rules are not remarked on, nor are files
/// that repeat them.
pub(crate) fn remark(rules: &[Rule], fallback: Option<usize>, warnings: &mut Vec<Warning>) {
    // The rule for unknown names is always in use.
    let mut used: Vec<_> = (0..rules.len()).map(|index| Some(index) == fallback).collect();
    for rule in rules {
        rule.node.for_each_check(&mut |check, _, _| {
            if let What::Rule { rule: Some(to), .. } = check.what {
                used[to] = true;
            }
        });
    }
    for (rule, used) in rules.iter().zip(used) {
        if rule.as_default || rule.is_elsewhere() {
            continue;
        }
        let place = rule.place();
        let mut warn = |remark| warnings.push(Warning { place: place.clone(), remark });
        match &rule.node {
            Node::Always if rule.text.is_empty() => warn(Remark::Empty),
            Node::Broken(why) => warn(Remark::Broken(why.to_string())),
            _ => {}
        }
        if rule.scopes.is_none() && !used {
            warn(Remark::Unused);
        }
        rule.node.for_each_check(&mut |check, _, _| remark_on(check, &mut warn));
    }
}

fn remark_on(check: &Check, warn: &mut impl FnMut(Remark)) {
    let text = check.text.clone();
    let wanted = match &check.what {
        What::Unreadable(_) => return,
        What::Malformed => return warn(Remark::Malformed(text)),
        What::Rule { name, rule } => {
            if rule.is_none() {
                warn(Remark::UnknownReference(name.clone()));
            }
            return;
        }
        What::Role { wanted, .. } | What::Literal { wanted, .. } => wanted,
        What::Credential { path, wanted } => {
            let name = path.join(".");
            if !creds::NAMES.contains(&name.as_str()) {
                warn(Remark::UnknownCredential { check: text.clone(), name });
            }
            wanted
        }
    };
    for key in wanted.keys() {
        if !creds::NAMES.contains(&key) && !target::NAMES.contains(&key) {
            warn(Remark::UnknownKey { check: text.clone(), name: key.to_owned() });
        }
    }
}
