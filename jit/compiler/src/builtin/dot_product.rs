//! Builtins: dot products of four integers of eight bits (cl_khr_integer_dot_product). Each product has 16 bits, so that
//! their sum is exact in 32; only adding to an accumulator saturates.

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{Call, FIXED, Rows};

/// The operands' signs, and what names with packed operands end with.
const SIGNS: [(bool, bool, &str); 4] =
    [(false, false, "uu_uint"), (true, true, "ss_int"), (false, true, "us_int"), (true, false, "su_int")];

pub fn rows(rows: &mut Rows) {
    for (a, b, ending) in SIGNS {
        let [first, second] = [a, b].map(|signed| if signed { "char4" } else { "uchar4" });
        let result = if a || b { "int" } else { "uint" };
        let product = move |e: &mut Emitter, call: &Call| product(e, call, [a, b]);
        let sum = move |e: &mut Emitter, call: &Call| {
            let product = product(e, call);
            let add = if a || b { "sadd.sat" } else { "uadd.sat" };
            e.intrinsic(add, &[product, call.arguments[2].clone()])
        };
        rows.expand("dot", FIXED, format!("{result}({first},{second})"), product);
        rows.expand("dot_acc_sat", FIXED, format!("{result}({first},{second},{result})"), sum);
        rows.expand(&format!("dot_4x8packed_{ending}"), FIXED, format!("{result}(uint,uint)"), product);
        let pattern = format!("{result}(uint,uint,{result})");
        rows.expand(&format!("dot_acc_sat_4x8packed_{ending}"), FIXED, pattern, sum);
    }
}

fn product(e: &mut Emitter, call: &Call, signed: [bool; 2]) -> Value {
    let bytes = Ir { lane: Lane::Int(8), width: 4 };
    let [a, b] = [0, 1].map(|index| {
        let operand = &call.arguments[index];
        let lanes = match operand.ir.width {
            1 => e.value(bytes, &format!("bitcast {operand} to {bytes}")),
            _ => operand.clone(),
        };
        e.cast(if signed[index] { "sext" } else { "zext" }, &lanes, Lane::Int(32))
    });
    let products = e.binary("mul", &a, &b);
    e.reduce("add", &products)
}
