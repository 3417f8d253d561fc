//! Facts about Kernel IR: pieces that change nothing, asked by the transforms.

mod control_flow;
pub(crate) mod demanded_bits;
mod divisor;
mod dominators;
mod effects;
mod escape;
mod frequency;
mod groups;
mod idle_barriers;
mod leaps;
mod liveness;
mod loops;
mod magnitude;
mod masks;
mod shape;
mod streams;
mod uniformity;
mod wrapping;

pub use control_flow::ControlFlow;
pub use divisor::Divisors;
pub use dominators::Dominators;
pub use effects::find_effects;
pub(crate) use escape::place_count;
pub use escape::{SlotAddresses, escaping_slots};
pub use frequency::Frequencies;
pub use groups::{any_order, sees_group, sees_sub_groups};
pub use idle_barriers::idle_barriers;
pub use leaps::Leaps;
pub use liveness::Liveness;
pub use loops::{Edge, Level, Loop, LoopId, Loops, Node, To, linear_order};
pub use masks::{Mask, Masks};
pub(crate) use shape::interval;
pub use shape::{ID_LIMIT, MemoryShape, Shape, Shapes, id_limit};
pub use streams::{buffer, written_only};
pub use uniformity::Uniformity;
pub use wrapping::wrapping_loops;

#[cfg(test)]
mod tests;
