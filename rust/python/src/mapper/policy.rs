//! What a pending id is taken for, in words.

use dochistory_core::protocols::mapper::rules::Policy;

use crate::errors::{Failure, Outcome};

/// The word of a policy.
pub(super) fn policy_word(policy: Policy) -> &'static str {
    match policy {
        Policy::Error => "error",
        Policy::Process => "process",
        Policy::Duplicate => "duplicate",
    }
}

/// The policy of a word; `setting` is what it was given for.
pub(super) fn policy(setting: &str, word: &str) -> Outcome<Policy> {
    let all = [Policy::Error, Policy::Process, Policy::Duplicate];
    all.into_iter().find(|policy| policy_word(*policy) == word).ok_or_else(|| {
        Failure::config(format!("{setting} is {word:?}; allowed is \"error\" or \"process\" or \"duplicate\""))
    })
}
