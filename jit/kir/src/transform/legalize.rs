//! Legalization: Kernel IR in the operations that a simple back end has.
//!
//! `expand` writes operations that it lacks in others; what is left of integers of odd widths, `promote` gives the width of a
//! register. Both compute the bits that LLVM's code computes.

mod expand;
mod promote;
mod replace;

pub use expand::expand_operations;
pub use promote::promote_integers;

/// What no simple back end can do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0} is nothing for the baseline")]
pub struct Illegal(String);

impl Illegal {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Illegal(what.into())
    }
}
