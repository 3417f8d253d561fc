//! Widening: LLVM's intrinsics. Those that work element by element take vectors over the lanes as they take scalars.

use super::Widener;
use super::values::components;
use crate::{BinaryOp, Flags, IntPredicate, Op, Scalar, Type, Value};

/// Intrinsics that work element by element, without the types in their names.
const ELEMENTWISE: [&str; 53] = [
    "abs",
    "bitreverse",
    "bswap",
    "canonicalize",
    "ceil",
    "copysign",
    "cos",
    "ctlz",
    "ctpop",
    "cttz",
    "exp",
    "exp10",
    "exp2",
    "fabs",
    "floor",
    "fma",
    "fmuladd",
    "fptosi.sat",
    "fptoui.sat",
    "fshl",
    "fshr",
    "is.fpclass",
    "ldexp",
    "log",
    "log10",
    "log2",
    "maximum",
    "maximumnum",
    "maxnum",
    "minimum",
    "minimumnum",
    "minnum",
    "nearbyint",
    "pow",
    "rint",
    "round",
    "roundeven",
    "sadd.sat",
    "scmp",
    "sin",
    "smax",
    "smin",
    "spirula.reciprocal_root",
    "sqrt",
    "sshl.sat",
    "ssub.sat",
    "trunc",
    "uadd.sat",
    "ucmp",
    "umax",
    "umin",
    "ushl.sat",
    "usub.sat",
];

/// `fma` and [`v4f32`] from `llvm.fma.v4f32`.
fn split_name(name: &str) -> Option<(&str, Vec<&str>)> {
    let rest = name.strip_prefix("llvm.")?;
    let mut end = rest.len();
    let mut types = Vec::new();
    while let Some(dot) = rest[..end].rfind('.') {
        let part = &rest[dot + 1..end];
        let digits = part.trim_start_matches(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !digits.is_empty() || !part.ends_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        types.push(part);
        end = dot;
    }
    types.reverse();
    Some((&rest[..end], types))
}

impl Widener<'_> {
    /// None if it must be instantiated for each lane.
    pub(super) fn intrinsic(
        &mut self,
        name: &str,
        flags: Flags,
        arguments: &[Value],
        ty: &Type,
    ) -> Option<Vec<Value>> {
        let (base, types) = split_name(name)?;
        if let Some(kind) = base.strip_prefix("vector.reduce.") {
            return self.reduce(kind, arguments);
        }
        if !ELEMENTWISE.contains(&base) {
            return None;
        }
        let scalars = components(ty);
        let wide_types: Vec<String> = types
            .iter()
            .map(|t| {
                let element =
                    t.strip_prefix('v').map_or(*t, |v| v.trim_start_matches(|c: char| c.is_ascii_digit()));
                format!(".v{}{element}", self.lanes)
            })
            .collect();
        let name = format!("llvm.{base}{}", wide_types.concat());
        // Flags such as `ctlz`'s are constants, not lanes; so is the class of `is.fpclass`.
        let is_flag = |i: usize| i == 1 && matches!(base, "abs" | "ctlz" | "cttz" | "is.fpclass");
        let lanes: Vec<Vec<Value>> = (arguments.iter().enumerate())
            .map(|(i, &a)| if is_flag(i) { vec![self.first_lane(a)] } else { self.lanes_of(a) })
            .collect();
        let component = |w: &mut Self, c: usize, scalar: Scalar| {
            let arguments = lanes.iter().map(|l| l[c.min(l.len() - 1)]).collect();
            w.push(w.wide(scalar), Op::Intrinsic { name: name.as_str().into(), flags, arguments })
        };
        Some(scalars.iter().enumerate().map(|(c, &s)| component(self, c, s)).collect())
    }

    /// Over the components of an OpenCL vector.
    fn reduce(&mut self, kind: &str, arguments: &[Value]) -> Option<Vec<Value>> {
        let op = match kind {
            "add" => Ok(BinaryOp::Add),
            "mul" => Ok(BinaryOp::Mul),
            "and" => Ok(BinaryOp::And),
            "or" => Ok(BinaryOp::Or),
            "xor" => Ok(BinaryOp::Xor),
            "smax" => Err(IntPredicate::Sgt),
            "smin" => Err(IntPredicate::Slt),
            "umax" => Err(IntPredicate::Ugt),
            "umin" => Err(IntPredicate::Ult),
            _ => return None,
        };
        let parts = self.lanes_of(arguments[0]);
        let combine = |w: &mut Self, a: Value, b: Value| match op {
            Ok(op) => w.binary(op, a, b),
            Err(predicate) => {
                let chosen = w.compare(predicate, a, b);
                w.select(chosen, a, b)
            }
        };
        let whole = parts.into_iter().reduce(|a, b| combine(self, a, b))?;
        Some(vec![whole])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split() {
        assert_eq!(split_name("llvm.fma.v4f32"), Some(("fma", vec!["v4f32"])));
        assert_eq!(split_name("llvm.fptosi.sat.i32.f64"), Some(("fptosi.sat", vec!["i32", "f64"])));
        assert_eq!(split_name("llvm.exp2.f32"), Some(("exp2", vec!["f32"])));
        assert_eq!(split_name("llvm.vector.reduce.or.v4i32"), Some(("vector.reduce.or", vec!["v4i32"])));
        assert!(ELEMENTWISE.is_sorted());
    }
}
