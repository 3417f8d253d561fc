//! Legalization: Kernel IR in the operations that a simple back end has.

mod parts;
mod scalarize;

pub use scalarize::scalarize;

/// What no simple back end can do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0} is nothing for the baseline")]
pub struct Illegal(String);

impl Illegal {
    /// Of what is named.
    pub fn new(what: impl Into<String>) -> Self {
        Illegal(what.into())
    }
}
