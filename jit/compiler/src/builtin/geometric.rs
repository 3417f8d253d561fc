//! Builtins: geometric functions (6.12.5). float goes through double, where nothing overflows and a length is
//! correctly rounded nearly always; double scales by a power of two first.

use super::emit::{Emitter, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, Rows};
use super::types::Element;

const VECTORS: Generic = Generic { elements: &Element::FLOATS, widths: &[1, 2, 3, 4] };
const SINGLE: Generic = Generic { elements: &[Element::Float], widths: &[1, 2, 3, 4] };
const CROSS: Generic = Generic { elements: &Element::FLOATS, widths: &[3, 4] };

pub fn rows(rows: &mut Rows) {
    rows.formula("dot", VECTORS, "E(T,T)", |e, call| dot(e, &call.arguments[0], &call.arguments[1]));
    rows.formula("cross", CROSS, "T(T,T)", cross);
    rows.formula("length", VECTORS, "E(T)", |e, call| length(e, &call.arguments[0]));
    rows.formula("distance", VECTORS, "E(T,T)", |e, call| {
        let difference = e.binary("fsub", &call.arguments[0], &call.arguments[1]);
        length(e, &difference)
    });
    rows.formula("normalize", VECTORS, "T(T)", normalize);
    rows.expand("fast_length", SINGLE, "E(T)", |e, call| fast_length(e, &call.arguments[0]));
    rows.expand("fast_distance", SINGLE, "E(T,T)", |e, call| {
        let difference = e.binary("fsub", &call.arguments[0], &call.arguments[1]);
        fast_length(e, &difference)
    });
    rows.expand("fast_normalize", SINGLE, "T(T)", |e, call| {
        let x = &call.arguments[0];
        let length = fast_length(e, x);
        let zero = e.float(length.ir, 0.0);
        let is_zero = e.compare("fcmp oeq", &length, &zero);
        let one = e.float(length.ir, 1.0);
        let divisor = e.select(&is_zero, &one, &length);
        let divisor = e.splat(&divisor, call.width);
        e.binary("fdiv", x, &divisor)
    });
}

fn dot(e: &mut Emitter, x: &Value, y: &Value) -> Value {
    let products = e.binary("fmul", x, y);
    e.reduce("fadd", &products)
}

fn fast_length(e: &mut Emitter, x: &Value) -> Value {
    let square = dot(e, x, x);
    e.intrinsic("sqrt", &[square])
}

/// A fourth component is 0.
fn cross(e: &mut Emitter, call: &Call) -> Value {
    let [x, y] = [0, 1].map(|i| [0, 1, 2].map(|lane| e.extract(&call.arguments[i], lane)));
    let mut lanes: Vec<Value> = [(1, 2), (2, 0), (0, 1)]
        .into_iter()
        .map(|(i, j)| {
            let plus = e.binary("fmul", &x[i], &y[j]);
            let minus = e.binary("fmul", &x[j], &y[i]);
            e.binary("fsub", &plus, &minus)
        })
        .collect();
    if call.width == 4 {
        let zero = e.float(lanes[0].ir, 0.0);
        lanes.push(zero);
    }
    e.gather(&lanes)
}

fn length(e: &mut Emitter, x: &Value) -> Value {
    if x.ir.lane == Lane::Float {
        let wide = e.cast("fpext", x, Lane::Double);
        let length = fast_length(e, &wide);
        return e.cast("fptrunc", &length, Lane::Float);
    }
    let (scaled, unscale) = scaled(e, x);
    let length = fast_length(e, &scaled);
    e.binary("fmul", &length, &unscale)
}

/// The vector times a power of two that brings its largest component near 1, and the inverse of that power.
fn scaled(e: &mut Emitter, x: &Value) -> (Value, Value) {
    let bits = e.bits(x);
    let lanes: Vec<Value> = (0..x.ir.width).map(|index| e.extract(&bits, index)).collect();
    let scalar = lanes[0].ir;
    // Exponents are clamped where the inverse power would not be a normal number.
    let mask = e.int(scalar, 0x7FF << 52);
    let start = e.int(scalar, 1 << 52);
    let largest = lanes.iter().fold(start, |largest, lane| {
        let exponent = e.binary("and", lane, &mask);
        e.intrinsic("umax", &[largest, exponent])
    });
    let limit = e.int(scalar, 2045 << 52);
    let exponent = e.intrinsic("umin", &[largest, limit]);
    let sum = e.int(scalar, 2046 << 52);
    let inverse = e.binary("sub", &sum, &exponent);
    let unscale = e.cast("bitcast", &exponent, Lane::Double);
    let scale = e.cast("bitcast", &inverse, Lane::Double);
    let scale = e.splat(&scale, x.ir.width);
    (e.binary("fmul", x, &scale), unscale)
}

/// x / |x|. Zero stays zero; infinite components count as ±1 and the others beside them as ±0.
fn normalize(e: &mut Emitter, call: &Call) -> Value {
    let x = &call.arguments[0];
    let magnitude = e.intrinsic("fabs", std::slice::from_ref(x));
    let [zero, one, infinity] = [0.0, 1.0, f64::INFINITY].map(|value| e.float(x.ir, value));
    let infinite = e.compare("fcmp oeq", &magnitude, &infinity);
    let any_infinite = e.reduce("or", &infinite);
    let any_infinite = e.splat(&any_infinite, call.width);
    let unit = e.select(&infinite, &one, &zero);
    let unit = e.intrinsic("copysign", &[unit, x.clone()]);
    // NaN beside infinity stays NaN.
    let is_nan = e.compare("fcmp uno", x, x);
    let unit = e.select(&is_nan, x, &unit);
    let x = e.select(&any_infinite, &unit, x);
    let wide = match x.ir.lane {
        Lane::Float => e.cast("fpext", &x, Lane::Double),
        _ => scaled(e, &x).0,
    };
    let length = fast_length(e, &wide);
    let [zero, one] = [0.0, 1.0].map(|value| e.float(length.ir, value));
    let is_zero = e.compare("fcmp oeq", &length, &zero);
    let divisor = e.select(&is_zero, &one, &length);
    let divisor = e.splat(&divisor, call.width);
    let quotient = e.binary("fdiv", &wide, &divisor);
    e.cast("fptrunc", &quotient, x.ir.lane)
}
