//! The Kernel IR: one kernel at a time as typed SSA values in basic blocks with parameters, in safe Rust.
//! It is what SPIR becomes after LLVM's clean-up and before code is generated; barrier regions, uniformity and
//! vectorization are computed over it, and a kernel's work-group function is written in it ([`pipeline`]): back ends only
//! translate. It has a text form ([`Function`]'s `Display`, [`parse`]) for golden tests and `kir-opt`.
//!
//! Differences from LLVM IR: blocks have parameters instead of phis; a barrier ends its block; an address is
//! base + index*scale + offset in bytes; work-item queries, private slots and local memory are operations of their own.

pub mod analysis;
mod builder;
mod function;
mod instruction;
mod intrinsic;
pub mod lower;
mod module;
mod parse;
pub mod pipeline;
mod print;
mod reduction;
mod terminator;
mod text;
pub mod transform;
mod types;
mod verify;
mod wire;

pub use function::{
    AccessGroup, Attributes, Block, BlockData, Function, Inst, LocationId, LoopHints, Param, Passing,
    Promises, SMALL_LIMIT, Signature, Slot, SlotData, Value, ValueDef,
};
pub use instruction::{
    BinaryOp, CastOp, ContextSlot, Flags, FloatPredicate, IntPredicate, Op, Ordering, Predicate, RmwOp,
    SubGroupOp, UnaryOp, WorkItemQuery,
};
pub use intrinsic::{Effects, Intrinsic, Shape};
pub use module::{ConstantData, Module, Pointer, ReadError};
pub use parse::{ParseError, parse};
pub use print::Commas;
pub use reduction::ReduceOp;
pub use terminator::{Target, Terminator};
pub use text::parse_module;

pub use types::{AddressSpace, Constant, Limits, Scalar, Type};
pub use verify::verify;
