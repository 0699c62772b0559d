//! A breadth-first search over the states of a model.

use std::collections::HashSet;
use std::hash::Hash;

/// What is wrong with the first broken state that is found, and the shortest way to it; none if no
/// state is broken. And how many states there are. `after` gives the states that follow one, each
/// with the step that leads there.
pub fn search<State: Copy + Eq + Hash, Step: Copy, Wrong>(
    start: State,
    wrong: impl Fn(&State) -> Option<Wrong>,
    mut after: impl FnMut(&State, &mut Vec<(State, Step)>),
) -> (Option<(Wrong, Vec<Step>)>, usize) {
    let (mut all, mut known) = (vec![(start, 0, None)], HashSet::from([start]));
    let (mut at, mut found) = (0, Vec::new());
    while at < all.len() {
        let state = all[at].0;
        if let Some(wrong) = wrong(&state) {
            let back = std::iter::successors(Some(at), |at| Some(all[*at].1));
            let mut way: Vec<_> = back.map_while(|at| all[at].2).collect();
            way.reverse();
            return (Some((wrong, way)), all.len());
        }
        after(&state, &mut found);
        let new = found.drain(..).filter(|(state, _)| known.insert(*state));
        all.extend(new.map(|(state, step)| (state, at, Some(step))));
        at += 1;
    }
    (None, all.len())
}
