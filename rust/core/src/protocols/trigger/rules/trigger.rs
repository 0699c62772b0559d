//! A trigger's settings: their names, their values, and the part that the rules need.

use crate::error::{Error, Result};
pub use crate::types::Kind;
use crate::types::word_setting;

word_setting!(
    /// Whether a trigger runs its service for one document at a time.
    ProcessingMode, "processing_mode", {
        /// One at a time: an earlier row of a batch has ended when a later one begins.
        Serial = "serial",
        /// Several at a time: an earlier row of a batch may still run.
        Concurrent = "concurrent",
    }
);

word_setting!(
    /// The meaning of later rows of a batch with the key of an earlier one.
    InBatch, "in_batch", {
        /// Duplicates of it.
        Duplicate = "duplicate",
        /// In doubt.
        InDoubt = "in_doubt",
        /// New, as if each was judged before any of them ran.
        New = "new",
    }
);

word_setting!(
    /// Until when an entry of the history counts.
    Expiry, "expiry", {
        /// Until a purge removes it.
        UntilPurged = "until_purged",
        /// Until its time to live is over.
        Exact = "exact",
    }
);

/// The settings of one trigger, as a user gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own that users know by name")]
pub struct Trigger {
    /// Its id; the history keeps the keys of each trigger separate.
    pub name: String,
    /// Where its documents come from.
    pub kind: Kind,
    /// Whether documents are judged at all.
    pub detect_duplicates: bool,
    /// Whether the document history is asked.
    pub use_history: bool,
    /// How long an entry counts after the service began, in microseconds.
    pub history_time_to_live_us: i64,
    /// Whether documents are processed one at a time.
    pub processing_mode: ProcessingMode,
    /// The meaning of later rows of one key; none leaves it to the processing mode and the
    /// resolver.
    pub in_batch: Option<InBatch>,
    /// The server's switch: suspend rather than leave a document in doubt when a component is down.
    pub suspend_and_retry_on_error: bool,
    /// The trigger's own switch for the same.
    pub suspend_on_failure: bool,
    /// A JMS message with this number of deliveries is rejected.
    pub max_delivery_count: i64,
    /// A document of a messaging trigger that was delivered again this often is rejected; none
    /// for no limit, as in the documented systems.
    pub max_redelivery_count: Option<i64>,
    /// Whether `begin` completes documents in progress that the resolver calls duplicates; the
    /// documented systems do not.
    pub complete_resolved: bool,
    /// Until when an entry counts.
    pub expiry: Expiry,
}

/// The longest name in bytes; a name may become a file name.
const MAX_NAME_BYTES: usize = 255;
const TWO_HOURS_US: i64 = 2 * 3600 * 1_000_000;
/// The limit of deliveries where none is set.
const UNSET_DELIVERY_COUNT: i64 = 100;
const THIRTY_DAYS_US: i64 = 30 * 24 * 3600 * 1_000_000;

impl Trigger {
    /// A trigger that detects duplicates by the history, and remembers each id for 30 days: what a
    /// user of this library gets without further words.
    pub fn detecting(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            detect_duplicates: true,
            use_history: true,
            history_time_to_live_us: THIRTY_DAYS_US,
            complete_resolved: true,
            ..Self::new(name, kind)
        }
    }

    /// A trigger with the defaults of the documented systems: it detects nothing, and an entry
    /// lives for two hours.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            detect_duplicates: false,
            use_history: false,
            history_time_to_live_us: TWO_HOURS_US,
            processing_mode: ProcessingMode::Concurrent,
            in_batch: None,
            suspend_and_retry_on_error: true,
            suspend_on_failure: false,
            max_delivery_count: UNSET_DELIVERY_COUNT,
            max_redelivery_count: None,
            complete_resolved: false,
            expiry: Expiry::UntilPurged,
        }
    }

    /// Checks the settings that could be wrong.
    ///
    /// # Errors
    /// [`Error::Config`] with the setting, the value found and what is allowed.
    pub fn validate(&self) -> Result<()> {
        let name_bytes = self.name.len();
        if name_bytes == 0 || name_bytes > MAX_NAME_BYTES {
            return Err(Error::Config(format!(
                "the trigger's name has {name_bytes} bytes of UTF-8; allowed is 1 to {MAX_NAME_BYTES}"
            )));
        }
        if self.name.contains('\0') {
            return Err(Error::Config(format!(
                "the trigger's name is {:?}; allowed is any text without a NUL character",
                self.name
            )));
        }
        if self.history_time_to_live_us <= 0 {
            return Err(Error::Config(format!(
                "history_time_to_live is {} microseconds; allowed is any time longer than 0",
                self.history_time_to_live_us
            )));
        }
        if self.max_delivery_count < 1 {
            return Err(Error::Config(format!(
                "max_delivery_count is {}; allowed is 1 or more",
                self.max_delivery_count
            )));
        }
        if let Some(most) = self.max_redelivery_count.filter(|most| *most < 1) {
            return Err(Error::Config(format!("max_redelivery_count is {most}; allowed is 1 or more")));
        }
        self.check_kind()
    }

    /// A limit that only the other kind has would never reject anything.
    fn check_kind(&self) -> Result<()> {
        let (foreign, most, own) = match (self.kind, self.max_redelivery_count) {
            (Kind::Messaging, _) if self.max_delivery_count != UNSET_DELIVERY_COUNT => {
                ("max_delivery_count", self.max_delivery_count, "max_redelivery_count")
            }
            (Kind::Jms, Some(most)) => ("max_redelivery_count", most, "max_delivery_count"),
            _ => return Ok(()),
        };
        Err(Error::Config(format!(
            "{foreign} is {most}, and a trigger of kind {:?} does not have it: leave it out, or set {own}",
            self.kind.as_str()
        )))
    }

    /// Whether the trigger suspends when a component is down: either switch is enough.
    pub fn suspends(&self) -> bool {
        self.suspend_and_retry_on_error || self.suspend_on_failure
    }

    /// The settings for the rules; `resolver` tells whether there is one.
    pub fn settings(&self, resolver: bool) -> Settings {
        Settings {
            kind: self.kind,
            detect_duplicates: self.detect_duplicates,
            use_history: self.use_history,
            processing_mode: self.processing_mode,
            in_batch: self.in_batch,
            suspend: self.suspends(),
            max_delivery_count: self.max_delivery_count,
            max_redelivery_count: self.max_redelivery_count,
            resolver,
        }
    }
}

/// The settings of a trigger that the rules need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one condition of the table of rules")]
pub struct Settings {
    /// Where the documents come from.
    pub kind: Kind,
    /// Whether documents are judged at all.
    pub detect_duplicates: bool,
    /// Whether the document history is asked.
    pub use_history: bool,
    /// Whether documents are processed one at a time.
    pub processing_mode: ProcessingMode,
    /// The meaning of later rows of one key, if set.
    pub in_batch: Option<InBatch>,
    /// Whether the trigger suspends when a component is down.
    pub suspend: bool,
    /// A JMS message with this number of deliveries is rejected.
    pub max_delivery_count: i64,
    /// A document of a messaging trigger that was delivered again this often is rejected.
    pub max_redelivery_count: Option<i64>,
    /// Whether there is a resolver.
    pub resolver: bool,
}

impl Settings {
    /// Whether any outcome depends on the history, and so on the class of the keys and on their
    /// copies.
    pub fn needs_history(&self) -> bool {
        self.detect_duplicates && self.use_history
    }

    /// The count from which documents are rejected, if there is such a limit.
    pub fn most_deliveries(&self) -> Option<i64> {
        match self.kind {
            Kind::Messaging => self.max_redelivery_count,
            Kind::Jms => Some(self.max_delivery_count),
        }
    }

    /// Whether any outcome depends on the counts. With the history only a maximum does.
    pub fn needs_counts(&self) -> bool {
        self.detect_duplicates && (self.most_deliveries().is_some() || !self.use_history)
    }
}
