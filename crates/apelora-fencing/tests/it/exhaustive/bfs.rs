//! Breadth-first search over all states of a model, with the shortest way to a state that breaks something.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A model: states, what can happen in them, and what must and what should be seen.
pub(crate) trait Model: Sync {
    type State: Clone + Send + Sync;
    type Action: Copy + std::fmt::Debug + Send;

    fn start(&self) -> Self::State;
    fn actions(&self, state: &Self::State, into: &mut Vec<Self::Action>);
    fn apply(&self, state: &mut Self::State, action: Self::Action);
    /// Equal for states that behave the same.
    fn fingerprint(&self, state: &Self::State) -> u64;
    /// The names of what the step that led to this state broke, as bits.
    fn broken(&self, state: &Self::State) -> Option<String>;
    /// What was reached on some way, as bits.
    fn reached(&self, state: &Self::State) -> u64;
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found<A> {
    pub(crate) states: usize,
    pub(crate) transitions: u64,
    pub(crate) depth: usize,
    /// Whether every state was seen.
    pub(crate) complete: bool,
    pub(crate) reached: u64,
    /// What is broken, and the shortest way to it.
    pub(crate) broken: Option<(String, Vec<A>)>,
}

/// Fingerprints are hashes already.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are looked up");
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

type Seen = HashMap<u64, (u64, u32), BuildHasherDefault<AsIs>>;

struct Next<S> {
    parent: u64,
    index: u32,
    fingerprint: u64,
    state: S,
    broken: Option<String>,
}

/// Explores every state up to `most` states, level by level, on two threads.
///
/// States are compared by a 64-bit fingerprint: with ten million states the chance that any two of them collide is below one in
/// a hundred thousand.
pub(crate) fn search<M: Model>(model: &M, most: usize) -> Found<M::Action> {
    let start = model.start();
    let root = model.fingerprint(&start);
    let mut seen = Seen::default();
    seen.insert(root, (root, u32::MAX));
    let mut found = Found {
        states: 1,
        transitions: 0,
        depth: 0,
        complete: true,
        reached: model.reached(&start),
        broken: None,
    };
    let mut level = vec![(root, start)];
    while !level.is_empty() {
        let middle = level.len() / 2;
        let (left, right) = level.split_at(middle);
        let seen_ref = &seen;
        let (a, b) = std::thread::scope(|s| {
            let a = s.spawn(move || expand(model, left, seen_ref));
            let b = expand(model, right, seen_ref);
            (a.join().expect("the other half of the level"), b)
        });
        let mut next = Vec::new();
        for (news, transitions) in [a, b] {
            found.transitions += transitions;
            for new in news {
                if seen.contains_key(&new.fingerprint) {
                    continue;
                }
                seen.insert(new.fingerprint, (new.parent, new.index));
                found.reached |= model.reached(&new.state);
                if let Some(what) = new.broken {
                    found.states = seen.len();
                    found.broken = Some((what, way(model, &seen, root, new.fingerprint)));
                    return found;
                }
                next.push((new.fingerprint, new.state));
            }
        }
        found.states = seen.len();
        if next.is_empty() {
            break;
        }
        found.depth += 1;
        if seen.len() >= most {
            found.complete = false;
            break;
        }
        level = next;
    }
    found
}

fn expand<M: Model>(model: &M, level: &[(u64, M::State)], seen: &Seen) -> (Vec<Next<M::State>>, u64) {
    let mut news: Vec<Next<M::State>> = Vec::new();
    let mut mine: HashMap<u64, (), BuildHasherDefault<AsIs>> = HashMap::default();
    let mut transitions = 0;
    let mut actions = Vec::new();
    for (parent, state) in level {
        actions.clear();
        model.actions(state, &mut actions);
        for (index, action) in actions.iter().enumerate() {
            let mut next = state.clone();
            model.apply(&mut next, *action);
            transitions += 1;
            let fingerprint = model.fingerprint(&next);
            let broken = model.broken(&next);
            if !seen.contains_key(&fingerprint) && mine.insert(fingerprint, ()).is_none() {
                news.push(Next { parent: *parent, index: index as u32, fingerprint, state: next, broken });
            }
        }
    }
    (news, transitions)
}

/// The actions from the start to `to`, found again by following the parents and repeating the steps.
fn way<M: Model>(model: &M, seen: &Seen, root: u64, to: u64) -> Vec<M::Action> {
    let mut indices = Vec::new();
    let mut at = to;
    while at != root {
        let (parent, index) = seen[&at];
        indices.push(index);
        at = parent;
    }
    let mut state = model.start();
    let mut actions = Vec::new();
    indices
        .iter()
        .rev()
        .map(|index| {
            actions.clear();
            model.actions(&state, &mut actions);
            let action = actions[*index as usize];
            model.apply(&mut state, action);
            action
        })
        .collect()
}
