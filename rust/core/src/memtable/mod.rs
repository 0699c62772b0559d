//! The log's content in memory: entries of ids and entries with values, each with an index.

mod ids;
mod index;
mod slots;
mod union;
pub(crate) mod values;
mod young;

pub(crate) use ids::{Memtable, Outline};
pub(crate) use union::UnionFilter;
pub(crate) use young::YoungFilter;
