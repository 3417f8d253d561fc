//! How much is done to make code fast.

use serde::{Deserialize, Serialize};

/// What code is made by. Both compute the same bits, unless an option grants liberties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// Scalar code that is there after a few milliseconds.
    Baseline,
    /// Work-items in SIMD lanes, and LLVM's optimizations.
    Optimized,
}
