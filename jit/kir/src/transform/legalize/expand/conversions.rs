//! Legalization: conversions between floats and integers of other widths than 32 and 64 bits.

use super::{Illegal, Outcome, bits, ones};
use crate::builder::Builder;
use crate::{CastOp, Intrinsic, Type, Value};

/// The width of the instruction that converts integers of that width; None if there is none.
fn converted_width(width: u32) -> Option<u32> {
    match width {
        0..=32 => Some(32),
        33..=64 => Some(64),
        _ => None,
    }
}

pub(super) fn cast(
    builder: &mut Builder,
    op: CastOp,
    value: Value,
    result: Value,
) -> Result<Outcome, Illegal> {
    let (from, to) = (builder.ty(value), builder.ty(result));
    let integer = match op {
        CastOp::FpToSi | CastOp::FpToUi => &to,
        CastOp::SiToFp | CastOp::UiToFp => &from,
        _ => return Ok(Outcome::Keep),
    };
    let width = bits(integer);
    let wide =
        converted_width(width).ok_or_else(|| Illegal::new(format!("`{}` from {from} to {to}", op.name())))?;
    if wide == width {
        return Ok(Outcome::Keep);
    }
    // There is room for a sign.
    let wide = Type::int(wide);
    Ok(Outcome::Is(match op {
        CastOp::FpToSi | CastOp::FpToUi => {
            let whole = builder.cast(CastOp::FpToSi, wide, value);
            builder.cast(CastOp::Trunc, to, whole)
        }
        _ => {
            let extend = if op == CastOp::SiToFp { CastOp::SExt } else { CastOp::ZExt };
            let whole = builder.cast(extend, wide, value);
            builder.cast(CastOp::SiToFp, to, whole)
        }
    }))
}

/// `fptosi.sat` or `fptoui.sat`.
pub(super) fn saturating(
    builder: &mut Builder,
    which: Intrinsic,
    x: Value,
    to: &Type,
) -> Result<Option<Value>, Illegal> {
    let width = bits(to);
    let wide = converted_width(width).ok_or_else(|| Illegal::new(format!("`{}` to {to}", which.name())))?;
    if wide == width {
        return Ok(None);
    }
    let ty = Type::int(wide);
    let whole = builder.push_intrinsic(ty.clone(), which, &[x]);
    let bounded = if which == Intrinsic::FloatToSignedSaturating {
        let largest = ones(width) >> 1;
        let least = builder.function.int(ty.clone(), ones(wide) ^ largest);
        let largest = builder.function.int(ty, largest);
        let bounded = builder.intrinsic(Intrinsic::SignedMax, &[whole, least]);
        builder.intrinsic(Intrinsic::SignedMin, &[bounded, largest])
    } else {
        let largest = builder.function.int(ty, ones(width));
        builder.intrinsic(Intrinsic::UnsignedMin, &[whole, largest])
    };
    Ok(Some(builder.cast(CastOp::Trunc, to.clone(), bounded)))
}
