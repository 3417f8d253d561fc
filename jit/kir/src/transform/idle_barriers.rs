//! Transform: leaves out barriers that order nothing ([`idle_barriers`]): two regions are one then, which has nothing to keep in between.

use crate::analysis::idle_barriers;
use crate::{Function, Terminator};

/// Work-items go on without waiting.
pub fn remove_idle_barriers(kernel: &mut Function) {
    for block in idle_barriers(kernel) {
        if let Terminator::Barrier(onward) = kernel.block(block).terminator.clone() {
            kernel.set_terminator(block, Terminator::Jump(onward));
        }
    }
}
