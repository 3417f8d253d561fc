//! Checks: texels that an image doesn't have, at coordinates for which no sampler says what is there. The library looks for them where it
//! accesses images; what it calls then is replaced here by what tells of it.

use super::{Checker, Context, IMAGE_OUTSIDE};
use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, CastOp, Function, Op, Type, Value, ValueDef};
use spirula_interface::check::{self, Checked};

/// Writes the checks.
pub(super) fn check(function: &mut Function, checker: &mut Checker, context: &Context) {
    rewrite(function, |builder, inst| {
        let Op::Call { function: callee, arguments, .. } = builder.function.op(inst) else { return false };
        if **callee != *IMAGE_OUTSIDE {
            return false;
        }
        let &[image, writes, x, y, z, width, height, slices] = &arguments[..] else { return false };
        let access = match builder.function.constant_int(writes) {
            Some(0) => check::Access::Read,
            _ => check::Access::Write,
        };
        let what = Checked::Texel { access, argument: argument(builder.function, context, image) };
        let site = checker.site(builder.function, builder.function.location(inst), what);
        let values = [[x, y], [z, width], [height, slices]].map(|pair| packed(builder, pair));
        checker.note(builder, site, values);
        true
    });
}

/// The number of the kernel's argument that an image is.
fn argument(function: &Function, context: &Context, address: Value) -> Option<u32> {
    let mut value = address;
    while let Some(&Op::Cast {
        op: CastOp::PtrToInt | CastOp::AddrSpaceCast | CastOp::BitCast,
        value: from,
        ..
    }) = function.defining_op(value)
    {
        value = from;
    }
    let ValueDef::Param(number) = function.def(value) else { return None };
    let offset = function.params[*number as usize].offset;
    let arguments = &context.signature.arguments;
    arguments.iter().position(|argument| argument.offset == offset).map(|number| number as u32)
}

/// Two numbers of 32 bits, the first one below.
fn packed(builder: &mut Builder, pair: [Value; 2]) -> Value {
    let [low, high] = pair.map(|value| builder.cast(CastOp::ZExt, Type::I64, value));
    let by = builder.int(32);
    let high = builder.binary(BinaryOp::Shl, 0, high, by);
    builder.binary(BinaryOp::Or, 0, low, high)
}
