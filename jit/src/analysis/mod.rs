//! Facts about Kernel IR: pieces that change nothing, asked by the transforms.

mod control_flow;
mod dominators;
mod liveness;
mod uniformity;

pub use control_flow::ControlFlow;
pub use dominators::Dominators;
pub use liveness::Liveness;
pub use uniformity::Uniformity;
