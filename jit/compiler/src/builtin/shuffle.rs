//! Builtins: shuffle and shuffle2 (6.12.12).

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{Call, Rows, SCALARS};

const WIDTHS: [u8; 4] = [2, 4, 8, 16];

pub fn rows(rows: &mut Rows) {
    for from in WIDTHS {
        for to in WIDTHS {
            rows.expand("shuffle", SCALARS, format!("T{to}(T{from},U{to})"), |e, call| {
                pick(e, call, &call.arguments[0], &call.arguments[1])
            });
            rows.expand("shuffle2", SCALARS, format!("T{to}(T{from},T{from},U{to})"), |e, call| {
                let both = concatenate(e, &call.arguments[0], &call.arguments[1]);
                pick(e, call, &both, &call.arguments[2])
            });
        }
    }
}

fn concatenate(e: &mut Emitter, a: &Value, b: &Value) -> Value {
    let width = a.ir.width * 2;
    let indices: Vec<String> = (0..width).map(|index| format!("i32 {index}")).collect();
    let instruction = format!("shufflevector {a}, {b}, <{width} x i32> <{}>", indices.join(", "));
    e.value(Ir { width, ..a.ir }, &instruction)
}

/// Only the low bits of the mask count, as many as name a lane.
fn pick(e: &mut Emitter, call: &Call, source: &Value, mask: &Value) -> Value {
    let limit = e.int(mask.ir, i128::from(source.ir.width) - 1);
    let mask = e.binary("and", mask, &limit);
    let lane = Ir::scalar(source.ir.lane);
    let lanes: Vec<Value> = (0..call.result.width)
        .map(|index| {
            let place = e.extract(&mask, index);
            let place =
                e.cast(if place.ir.lane.bits() > 32 { "trunc" } else { "zext" }, &place, Lane::Int(32));
            e.value(lane, &format!("extractelement {source}, {place}"))
        })
        .collect();
    e.gather(&lanes)
}
