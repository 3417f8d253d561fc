//! Legalization: integers of odd widths in memory. Only the bytes that they have are touched, in as few accesses as
//! registers have widths.

use super::{cut, register};
use crate::builder::Builder;
use crate::{BinaryOp, CastOp, Op, Type, Value};

/// Offsets and sizes of the accesses to so many bytes, the longest first.
fn pieces(bytes: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = bytes - at;
        let size = 1 << left.checked_ilog2()?;
        at += size;
        Some((at - size, size))
    })
}

/// What is known of the alignment so many bytes behind a place.
fn align_at(align: u32, offset: u32) -> u32 {
    if offset == 0 { align } else { align.min(1 << offset.trailing_zeros()) }
}

fn place(builder: &mut Builder, pointer: Value, offset: u32) -> Value {
    if offset == 0 { pointer } else { builder.offset(pointer, offset.into()) }
}

/// Pointer, alignment, and whether the access is volatile.
type Access = (Value, u32, bool);

pub(super) fn load(builder: &mut Builder, (pointer, align, volatile): Access, width: u32) -> Value {
    let whole = Type::int(register(width));
    let mut parts = Vec::new();
    for (offset, size) in pieces(width.div_ceil(8)) {
        let (pointer, align) = (place(builder, pointer, offset), align_at(align, offset));
        let op = Op::Load { pointer, align, volatile, ordering: None };
        let mut part = builder.push(Type::int(8 * size), op);
        if 8 * size < register(width) {
            part = builder.cast(CastOp::ZExt, whole.clone(), part);
        }
        if offset > 0 {
            let places = builder.function.int(whole.clone(), (8 * offset).into());
            part = builder.binary(BinaryOp::Shl, 0, part, places);
        }
        parts.push(part);
    }
    let value = parts.into_iter().reduce(|low, high| builder.binary(BinaryOp::Or, 0, low, high));
    let value = value.unwrap_or_else(|| builder.function.int(whole, 0));
    if width.is_multiple_of(8) { value } else { cut(builder, value, width) }
}

pub(super) fn store(builder: &mut Builder, (pointer, align, volatile): Access, value: Value, width: u32) {
    let whole = builder.ty(value);
    for (offset, size) in pieces(width.div_ceil(8)) {
        let mut part = value;
        if offset > 0 {
            let places = builder.function.int(whole.clone(), (8 * offset).into());
            part = builder.binary(BinaryOp::LShr, 0, part, places);
        }
        if 8 * size < register(width) {
            part = builder.cast(CastOp::Trunc, Type::int(8 * size), part);
        }
        let (pointer, align) = (place(builder, pointer, offset), align_at(align, offset));
        builder.effect(Op::Store { pointer, value: part, align, volatile, ordering: None });
    }
}
