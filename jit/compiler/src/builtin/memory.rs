//! Builtins: vector data load and store (6.12.7), prefetch. Pointers are aligned to the element only.

use super::convert::{Rounding, round_float};
use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::table::{ANY, Call, Effect, FIXED, Rows, SCALARS, nothing};
use super::types::Element;

const FLOATS: Generic = Generic { elements: &[Element::Float, Element::Double], widths: &[1] };
const HALF: Lane = Lane::Half;

pub fn rows(rows: &mut Rows) {
    for width in [2, 3, 4, 8, 16] {
        rows.expand(
            &format!("vload{width}"),
            SCALARS,
            format!("T{width}(size_t,const*T)"),
            move |e, call| {
                let pointer = address(e, &call.arguments[0], &call.arguments[1], call.result.lane, width);
                e.load(call.result, &pointer, call.result.lane.bits() / 8)
            },
        );
        rows.expand(
            &format!("vstore{width}"),
            SCALARS,
            format!("void(T{width},size_t,*T)"),
            move |e, call| {
                let [data, offset, base] = call.arguments else {
                    unreachable!("vstore has three parameters")
                };
                let pointer = address(e, offset, base, data.ir.lane, width);
                e.store(data, &pointer, data.ir.lane.bits() / 8);
                nothing()
            },
        );
    }
    for width in [1u8, 2, 3, 4, 8, 16] {
        let suffix = if width == 1 { String::new() } else { width.to_string() };
        // Of three, the aligned forms step over four.
        let padded = if width == 3 { 4 } else { width };
        for (aligned, stride) in [("", width), ("a", padded)] {
            let pattern = format!("float{suffix}(size_t,const*half)");
            rows.expand(&format!("vload{aligned}_half{suffix}"), FIXED, pattern, move |e, call| {
                load_half(e, call, stride)
            });
            for rounding in Rounding::ALL {
                let pattern = format!("void(T{width},size_t,*half)");
                let name = format!("vstore{aligned}_half{suffix}{}", rounding.suffix());
                rows.expand(&name, FLOATS, pattern, move |e, call| store_half(e, call, stride, rounding));
            }
        }
    }
    rows.expand("prefetch", ANY, "void(const-global*T,size_t)", |_, _| nothing());
    rows.mark("prefetch", Effect::Pure);
}

/// `base + offset * stride` elements.
fn address(e: &mut Emitter, offset: &Value, base: &Value, lane: Lane, stride: u8) -> Value {
    let stride = e.int(offset.ir, stride.into());
    let index = e.binary("mul", offset, &stride);
    e.element(base, lane, &index)
}

fn load_half(e: &mut Emitter, call: &Call, stride: u8) -> Value {
    let pointer = address(e, &call.arguments[0], &call.arguments[1], HALF, stride);
    let halves = e.load(call.result.with(HALF), &pointer, 2);
    e.cast("fpext", &halves, Lane::Float)
}

fn store_half(e: &mut Emitter, call: &Call, stride: u8, rounding: Rounding) -> Value {
    let [data, offset, base] = call.arguments else { unreachable!("vstore_half has three parameters") };
    let pointer = address(e, offset, base, HALF, stride);
    let halves = round_float(e, data, HALF, rounding);
    debug_assert_eq!(halves.ir, Ir { lane: HALF, ..data.ir });
    e.store(&halves, &pointer, 2);
    nothing()
}
