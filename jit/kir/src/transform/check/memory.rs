//! Checks: every access lies within the object that its pointer leads to, which may be accessed so, and is aligned as it says. One that
//! is not is told and left out: what it reads is zero.

use super::bounds::{Bounds, Root};
use super::provenance::Provenance;
use super::{Checker, Context};
use crate::analysis::ControlFlow;
use crate::builder::{Builder, Ending, replace_uses};
use crate::{
    BinaryOp, Block, CastOp, Constant, Function, Inst, IntPredicate, Intrinsic, Op, Shape, Type, Value,
};
use spirula_interface::check::{self, Checked};
use std::collections::HashMap;

/// What an instruction does with memory.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub pointer: Value,
    pub kind: check::Access,
    pub size: Size,
    pub align: u32,
}

/// Bytes of an access.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Known(u64),
    Given(Value),
}

/// Writes the checks.
pub(super) fn check(function: &mut Function, checker: &mut Checker, context: &Context) {
    let flow = ControlFlow::new(function);
    let order = flow.reverse_post_order().to_vec();
    let all: Vec<Access> = order
        .iter()
        .flat_map(|&block| &function.block(block).insts)
        .flat_map(|&inst| accesses(function, inst))
        .collect();
    if all.is_empty() {
        return;
    }
    let provenance = Provenance::new(function, &flow);
    let mut bounds = Bounds::new(function, checker, context, provenance, &all);
    let mut replaced = HashMap::new();
    for block in order {
        let (insts, ending) = Ending::take(function, block);
        let mut builder = Builder { function, at: block };
        if block.index() == 0 {
            bounds.begin(&mut builder);
        }
        for inst in insts {
            let list = accesses(builder.function, inst);
            let list: Vec<Access> =
                list.into_iter().filter(|access| !is_right(builder.function, &bounds, access)).collect();
            match list.is_empty() {
                true => builder.function.append(builder.at, inst),
                false => guard(&mut builder, checker, &bounds, inst, &list, &mut replaced),
            }
            if let Some(result) = builder.function.result(inst) {
                bounds.define(&mut builder, result);
            }
        }
        let end = builder.at;
        ending.put(function, end);
    }
    bounds.pass(function);
    replace_uses(function, &replaced);
}

/// Whether nothing can be wrong with an access.
fn is_right(function: &Function, bounds: &Bounds, access: &Access) -> bool {
    let is_the_runtimes = matches!(bounds.root(access.pointer), Root::Trusted | Root::Captures);
    let Size::Known(size) = access.size else { return is_the_runtimes };
    is_the_runtimes
        || bounds.is_within(function, access.pointer, size)
            && bounds.is_aligned(function, access.pointer, access.align.into())
}

/// What an instruction does with memory.
pub(super) fn accesses(function: &Function, inst: Inst) -> Vec<Access> {
    use check::Access::{Atomic, Read, Write};
    let one = |pointer: Value, kind, ty: &Type, align: u32| {
        vec![Access { pointer, kind, size: Size::Known(stored(ty)), align }]
    };
    let yields = || function.result(inst).map_or(Type::BOOL, |result| function.ty(result).clone());
    match function.op(inst) {
        Op::Load { pointer, align, .. } => one(*pointer, Read, &yields(), *align),
        Op::Store { pointer, value, align, .. } => one(*pointer, Write, function.ty(*value), *align),
        Op::AtomicRmw { pointer, value, align, .. } => one(*pointer, Atomic, function.ty(*value), *align),
        Op::CompareExchange { pointer, expected, align, .. } => {
            one(*pointer, Atomic, function.ty(*expected), *align)
        }
        Op::Intrinsic { intrinsic, arguments, .. } => {
            let size = |number: usize| match arguments.get(number) {
                Some(&size) => {
                    function.constant_int(size).map_or(Size::Given(size), |bytes| Size::Known(bytes as u64))
                }
                None => Size::Known(0),
            };
            let access = |pointer, kind, size| Access { pointer, kind, size, align: 1 };
            match (intrinsic.shape(), &arguments[..]) {
                (Shape::Copy, &[to, from, ..]) => {
                    vec![access(from, Read, size(2)), access(to, Write, size(2))]
                }
                (Shape::Fill, &[to, ..]) => vec![access(to, Write, size(2))],
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// Bytes that a value takes in memory, without what fills up an array's element.
pub(super) fn stored(ty: &Type) -> u64 {
    match ty {
        Type::Vector(scalar, lanes) => (scalar.bits() * u64::from(*lanes)).div_ceil(8),
        Type::Scalar(scalar) => scalar.bits().div_ceil(8),
        _ => ty.size(),
    }
}

/// Writes an instruction behind the checks of what it accesses.
fn guard(
    builder: &mut Builder,
    checker: &mut Checker,
    bounds: &Bounds,
    inst: Inst,
    list: &[Access],
    replaced: &mut HashMap<Value, Value>,
) {
    let join = builder.function.add_block();
    let result = builder.function.result(inst).map(|result| (result, builder.ty(result)));
    let nothing: Vec<Value> =
        result.iter().map(|(_, ty)| builder.constant(ty.clone(), Constant::Zero)).collect();
    for access in list {
        let location = builder.function.location(inst);
        let aligned = bounds.is_aligned(builder.function, access.pointer, access.align.into());
        let what = Checked::Access {
            access: access.kind,
            size: if let Size::Known(size) = access.size { size } else { 0 },
            align: if aligned { 1 } else { access.align },
            object: bounds.object(access.pointer),
        };
        let site = checker.site(builder.function, location, what);
        let [offset, room, base] = bounds.place(builder, access.pointer, access.kind != check::Access::Read);
        let mut good = is_within(builder, access, offset, room);
        if !aligned {
            let mask = builder.int(u64::from(access.align) - 1);
            let rest = builder.binary(BinaryOp::And, 0, offset, mask);
            let zero = builder.int(0);
            let aligned = builder.compare(IntPredicate::Eq, rest, zero);
            good = builder.binary(BinaryOp::And, 0, good, aligned);
        }
        let (on, bad) = (builder.function.add_block(), builder.function.add_block());
        builder.branch(good, (on, &[]), (bad, &[]));
        builder.at = bad;
        checker.note(builder, site, [offset, room, base]);
        builder.jump(join, &nothing);
        builder.at = on;
    }
    write(builder, inst, result, join, replaced);
    builder.at = join;
}

/// Writes the instruction, whose result goes to `join`.
fn write(
    builder: &mut Builder,
    inst: Inst,
    result: Option<(Value, Type)>,
    join: Block,
    replaced: &mut HashMap<Value, Value>,
) {
    let op = relaxed(builder.function, inst);
    let location = builder.function.location(inst);
    let before = std::mem::replace(&mut builder.function.at_location, location);
    match result {
        Some((old, ty)) => {
            let new = builder.push(ty.clone(), op);
            let joined = builder.function.add_block_param(join, ty);
            builder.jump(join, &[new]);
            replaced.insert(old, joined);
        }
        None => {
            builder.effect(op);
            builder.jump(join, &[]);
        }
    }
    builder.function.at_location = before;
}

/// The operation, which promises no more alignment than any address of its type has: an object may be less aligned than what the
/// program takes it for.
fn relaxed(function: &Function, inst: Inst) -> Op {
    let mut op = function.op(inst).clone();
    let ty = match &op {
        Op::Store { value, .. } => function.ty(*value).clone(),
        _ => function.result(inst).map_or(Type::BOOL, |result| function.ty(result).clone()),
    };
    if let Op::Load { align, ordering: None, .. } | Op::Store { align, ordering: None, .. } = &mut op {
        let lane = ty.scalar().map_or(1, |scalar| Type::Scalar(scalar).align() as u32);
        *align = (*align).min(lane);
    }
    op
}

/// Whether an access that begins so far in an object lies in its first bytes.
fn is_within(builder: &mut Builder, access: &Access, offset: Value, room: Value) -> Value {
    match access.size {
        Size::Known(0) => builder.function.int(Type::BOOL, 1),
        Size::Known(1) => builder.compare(IntPredicate::Ult, offset, room),
        Size::Known(size) => {
            let end = match builder.function.constant_int(room) {
                Some(room) => builder.int((room as u64).saturating_sub(size - 1)),
                None => {
                    let last = builder.int(size - 1);
                    builder.intrinsic(Intrinsic::UnsignedSubSaturating, &[room, last])
                }
            };
            builder.compare(IntPredicate::Ult, offset, end)
        }
        Size::Given(size) => {
            let size = as_i64(builder, size);
            let begins = builder.compare(IntPredicate::Ule, offset, room);
            let left = builder.binary(BinaryOp::Sub, 0, room, offset);
            let ends = builder.compare(IntPredicate::Ule, size, left);
            let zero = builder.int(0);
            let is_empty = builder.compare(IntPredicate::Eq, size, zero);
            let fits = builder.binary(BinaryOp::And, 0, begins, ends);
            builder.binary(BinaryOp::Or, 0, fits, is_empty)
        }
    }
}

/// An integer of 64 bits or less as one of 64.
pub(super) fn as_i64(builder: &mut Builder, value: Value) -> Value {
    match builder.ty(value) {
        Type::I64 => value,
        _ => builder.cast(CastOp::ZExt, Type::I64, value),
    }
}
