//! The documented systems: each its rules, as pure functions of facts, and the engine that gathers
//! the facts.

pub mod delivery;
pub mod mapper;
pub mod trigger;
