//! The columnar path: identify, look up, decide; and the operations on a history that rest on it.

pub(super) mod begin;
mod claim;
mod classify;
mod commit;
mod ends;
mod identities;
mod load;
mod look;
mod resolver;
pub mod rules;
mod settings;
mod stage;
mod stage_entries;
mod staged_claim;

pub use crate::store::staged::{Job, JobPlan, OutcomeCount, Receipt};
pub use crate::types::transaction::{OnReplay, Replay};
pub use begin::Begun;
pub use claim::Claim;
pub use classify::Verdicts;
pub use load::{Load, Loaded};
pub use resolver::{Ask, Asked, Reply, Resolver};
pub use stage::{Attempt, Staged};
pub use stage_entries::StageEntries;
pub use staged_claim::StagedClaim;

/// The parameters of one call.
pub struct Call<'a> {
    /// The time that counts as now, in microseconds since 1970.
    pub now_us: i64,
    /// Threads to use; at least one.
    pub threads: usize,
    /// The resolver for undecided rows.
    pub resolver: Option<&'a mut dyn Resolver>,
}

impl Call<'_> {
    /// A call at `now_us` on one thread, without a resolver.
    pub fn at(now_us: i64) -> Self {
        Self { now_us, threads: 1, resolver: None }
    }
}

#[cfg(test)]
mod old_numbers_tests;
