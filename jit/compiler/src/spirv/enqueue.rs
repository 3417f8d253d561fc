//! Kernels that kernels enqueue.

use super::Result;
use super::function::Body;
use super::stream::Instruction;

impl Body<'_, '_> {
    /// Instructions that enqueue; whether it was one.
    pub fn enqueue(&mut self, _instruction: &Instruction) -> Result<bool> {
        Ok(false)
    }
}
