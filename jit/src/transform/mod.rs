//! From a kernel to its work-group function's parts: passes over Kernel IR, one per file, in the order in which they run.

/// A place where a value or a private slot outlives its barrier region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextSlot(pub u32);
