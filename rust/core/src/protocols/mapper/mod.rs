//! The message id mapper: the rules of [`super::mapper::rules`] over a value space.

mod admin;
mod known;
mod mappings;
mod record;
pub mod rules;
mod send;
mod texts;
mod unit;
mod unit_mirrors;

use super::mapper::rules::Policy;
use crate::history::History;
use crate::history::values::{Room, ValueMap};
use crate::{Error, Result};

pub use admin::{PendingBatch, PendingEntries};
pub use known::Known;
pub use mappings::RowError;
pub use send::{Messages, Send, SendTransaction, SentRow};
pub use texts::{Texts, Untils};
pub use unit::{Taken, Unit};

/// How a channel's mapper works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapperSettings {
    /// The treatment of a pending id.
    pub policy: Policy,
    /// Write the second direction of each mapping as well.
    pub mirror: bool,
    /// Mappings count until their time, and no longer; else until they are purged.
    pub exact_expiry: bool,
}

/// The mapper of one channel. All its methods may be called by many threads at once.
#[derive(Clone, Debug)]
pub struct Mapper {
    name: String,
    values: ValueMap,
    settings: MapperSettings,
}

impl Mapper {
    /// The mapper of a channel; nothing is created before the first write.
    pub fn new(history: &History, channel: &str, settings: MapperSettings) -> Result<Self> {
        Ok(Self { name: channel.to_owned(), values: history.values(Room::Mapper, channel)?, settings })
    }

    /// The channel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The channel's settings.
    pub fn settings(&self) -> MapperSettings {
        self.settings
    }

    /// Its value space.
    pub fn values(&self) -> &ValueMap {
        &self.values
    }
}

/// An error unless a column is as long as the batch.
fn same_length(what: &str, length: usize, rows: usize) -> Result<()> {
    if length == rows {
        return Ok(());
    }
    Err(Error::Schema(format!("{what} has {length} rows; needed are {rows}")))
}
