//! The names of a key space's objects.

/// Commits that share a gate.
pub(crate) const BLOCK: u64 = if cfg!(feature = "small") { 4 } else { 256 };

/// The block of a commit; numbers begin at 1.
pub(crate) fn block_of(number: u64) -> u64 {
    number.saturating_sub(1) / BLOCK
}

/// The last commit of a block.
pub(crate) fn last_of(block: u64) -> u64 {
    (block + 1) * BLOCK
}

/// The names of one key space's objects, all with one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    /// `prefix` is empty, or ends with `/`.
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// What all names begin with.
    pub(crate) fn all(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn commits(&self) -> String {
        format!("{}commit-", self.prefix)
    }

    pub(crate) fn commit(&self, number: u64) -> String {
        format!("{}commit-{number:020}", self.prefix)
    }

    pub(crate) fn gate(&self, block: u64) -> String {
        format!("{}gate-{block:020}", self.prefix)
    }

    pub(crate) fn hint(&self) -> String {
        format!("{}hint", self.prefix)
    }

    /// What the objects that say that a handle compacts begin with.
    pub(crate) fn upkeeps(&self) -> String {
        format!("{}upkeep-", self.prefix)
    }

    pub(crate) fn upkeep(&self, mark: u64) -> String {
        format!("{}upkeep-{mark:016x}", self.prefix)
    }

    /// A file that commit `number` is the first to name.
    pub(crate) fn data(&self, number: u64, mark: u64, file: &str) -> String {
        format!("{}data-{number:020}-{mark:016x}-{file}", self.prefix)
    }

    /// The number in the name of a commit.
    pub(crate) fn number_of_commit(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.prefix)?.strip_prefix("commit-")?;
        digits.parse().ok().filter(|_| digits.len() == 20)
    }

    /// The number of the commit that may be the first to name a file.
    pub(crate) fn number_of_data(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&self.prefix)?.strip_prefix("data-")?;
        rest.get(..20)?.parse().ok().filter(|_| rest.as_bytes().get(20) == Some(&b'-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_numbers() {
        let names = Names::new("triggers/orders-1f/");
        assert_eq!(names.number_of_commit(&names.commit(42)), Some(42));
        assert_eq!(names.number_of_data(&names.data(42, 7, "segment-1")), Some(42));
        assert_eq!(names.number_of_commit(&names.gate(42)), None);
        assert_eq!(names.number_of_commit("triggers/invoices-1f/commit-00000000000000000042"), None);
        for block in 0..3 {
            assert_eq!(block_of(last_of(block)), block);
            assert_eq!(block_of(last_of(block) + 1), block + 1);
        }
    }
}
