//! The message id mapper, for Python.

mod admin;
mod arrays;
mod change;
mod channel;
mod entries;
mod figures;
mod messages;
mod policy;
mod send;
mod settings;
mod unit;
mod verdicts;

pub(crate) use channel::MessageIdMapper;
pub(crate) use figures::value_statistics;
pub(crate) use send::MapperSend;
pub(crate) use unit::{MapperTaken, UnitOfWork};
