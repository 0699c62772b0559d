//! The documented protocols. Each has its rules, as pure functions of facts, and an engine that
//! collects the facts.

pub mod delivery;
pub mod mapper;
pub mod trigger;
