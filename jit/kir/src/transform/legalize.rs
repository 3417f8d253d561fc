//! Legalization: Kernel IR in the operations that a simple back end has.
//!
//! `scalarize` takes vectors and aggregates apart, `expand` writes operations that the back end lacks in others; what is left of
//! integers of odd widths, `promote` gives the width of a register. All compute the bits that LLVM's code computes.

mod expand;
mod parts;
mod promote;
mod replace;
mod scalarize;

pub use expand::expand_operations;
pub use promote::promote_integers;
pub use scalarize::scalarize;

use crate::Function;
use crate::transform::remove_dead_code;

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

/// The same function in operations that a simple back end has. Callees are expected to be legalized as well.
pub fn legalize(function: &Function) -> Result<Function, Illegal> {
    let mut function = scalarize(function)?;
    remove_dead_code(&mut function);
    expand_operations(&mut function)?;
    promote_integers(&mut function)?;
    remove_dead_code(&mut function);
    Ok(function)
}
