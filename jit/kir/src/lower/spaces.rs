//! Lowering: which memory a generic pointer leads to. Local memory, scratch and the argument block are blocks whose places the
//! work-group function knows; all else is global. Private variables lie in scratch if the kernel asks for them.

use super::launch::Parameters;
use crate::builder::Builder;
use crate::transform::WorkGroup;
use crate::{BinaryOp, CastOp, Flags, IntPredicate, Intrinsic, Op, Predicate, Scalar, Type, Value};
use spirula_interface::program::{Launch, MemorySizes};
use std::mem::offset_of;

/// Whether work-items ask which pointers are private.
pub(super) fn asks_for_private(group: &WorkGroup) -> bool {
    asks(group, Intrinsic::IsPrivate)
}

fn asks(group: &WorkGroup, test: Intrinsic) -> bool {
    // A wide body asks what the scalar one does.
    group.regions.iter().any(|region| {
        let mut ops = region.body.insts().map(|inst| region.body.op(inst));
        ops.any(|op| matches!(op, Op::Intrinsic { intrinsic, .. } if *intrinsic == test))
    })
}

/// The blocks of memory: first byte and size, as numbers. Empty for a test that no work-item does.
#[derive(Clone)]
pub(super) struct Spaces {
    local: Vec<(Value, Value)>,
    private: Vec<(Value, Value)>,
}

impl Spaces {
    pub fn read(out: &mut Builder, parameters: &Parameters, group: &WorkGroup) -> Self {
        let mut block = |pointer: Value, size: usize| {
            let begin = out.cast(CastOp::PtrToInt, Type::I64, pointer);
            let place = out.offset(parameters.launch, (offset_of!(Launch, memory) + size) as u64);
            (begin, out.load(Type::I64, place, 8))
        };
        let mut spaces = Spaces { local: Vec::new(), private: Vec::new() };
        if asks(group, Intrinsic::IsLocal) {
            spaces.local.push(block(parameters.local_memory, offset_of!(MemorySizes, local)));
        }
        if asks(group, Intrinsic::IsPrivate) {
            spaces.private.push(block(parameters.scratch, offset_of!(MemorySizes, scratch)));
            spaces.private.push(block(parameters.arguments, offset_of!(MemorySizes, arguments)));
        }
        spaces
    }

    /// The test's answer for a pointer, or for a vector of them.
    pub fn test(&self, out: &mut Builder, test: Intrinsic, pointer: Value) -> Value {
        let blocks = if test == Intrinsic::IsLocal { &self.local } else { &self.private };
        let ty = out.ty(pointer).with_scalar(Scalar::Int(64));
        let address = out.cast(CastOp::PtrToInt, ty.clone(), pointer);
        let mut within = |&(begin, size): &(Value, Value)| {
            let [begin, size] = [begin, size].map(|value| out.splat(value, &ty));
            let distance = out.binary(BinaryOp::Sub, 0, address, begin);
            let predicate = Predicate::Int(IntPredicate::Ult);
            let op = Op::Compare { predicate, flags: Flags::NONE, lhs: distance, rhs: size };
            out.push(ty.with_scalar(Scalar::Int(1)), op)
        };
        let answers: Vec<Value> = blocks.iter().map(&mut within).collect();
        let either = answers.into_iter().reduce(|a, b| out.binary(BinaryOp::Or, 0, a, b));
        either.unwrap_or_else(|| unreachable!("the blocks were read for the tests that there are"))
    }
}
