//! Emission: atomic operations on local memory. A work-group runs on one thread, so nobody else sees its local memory
//! between a load and the store after it: they need not be atomic, only in order.

use super::instruction::RegionText;
use super::types::llvm_type;
use super::work_group::Writer;
use spirula_kir::{AddressSpace, Op, RmwOp, Type, Value};

impl RegionText<'_> {
    /// Writes the operation if it is one on local memory. The accesses are in no access group: one work-item's depends
    /// on another's.
    pub(super) fn local_atomic(&self, name: &str, op: &Op, result: Option<Value>, out: &mut Writer) -> bool {
        let (Op::AtomicRmw { pointer, .. } | Op::CompareExchange { pointer, .. }) = op else { return false };
        let Some(result) = result.filter(|_| self.space(*pointer) == AddressSpace::Local) else {
            return false;
        };
        match op {
            Op::AtomicRmw { op, pointer, value, align, .. } => {
                let ty = llvm_type(self.body.ty(*value));
                self.local_load(name, &ty, *pointer, *align, out);
                let new = if *op == RmwOp::Xchg {
                    self.text(*value)
                } else {
                    modify(name, *op, self.body.ty(*value), &self.text(*value), out);
                    format!("{name}.new")
                };
                self.local_store(&format!("{ty} {new}"), *pointer, *align, out);
            }
            Op::CompareExchange { pointer, expected, replacement, align, .. } => {
                let (ty, pair) = (llvm_type(self.body.ty(*expected)), llvm_type(self.body.ty(result)));
                let old = format!("{name}.old");
                self.local_load(&old, &ty, *pointer, *align, out);
                out.line(&format!("{name}.same = icmp eq {ty} {old}, {}", self.text(*expected)));
                let replacement = self.typed(*replacement);
                out.line(&format!("{name}.new = select i1 {name}.same, {replacement}, {ty} {old}"));
                self.local_store(&format!("{ty} {name}.new"), *pointer, *align, out);
                out.line(&format!("{name}.half = insertvalue {pair} poison, {ty} {old}, 0"));
                out.line(&format!("{name} = insertvalue {pair} {name}.half, i1 {name}.same, 1"));
            }
            _ => unreachable!("asked for atomics only"),
        }
        true
    }

    fn local_load(&self, name: &str, ty: &str, pointer: Value, align: u32, out: &mut Writer) {
        out.line(&format!("{name} = load {ty}, {}, align {align}{}", self.typed(pointer), LOCAL));
    }

    fn local_store(&self, value: &str, pointer: Value, align: u32, out: &mut Writer) {
        out.line(&format!("store {value}, {}, align {align}{}", self.typed(pointer), LOCAL));
    }
}

/// Metadata of an access to local memory, without an access group.
const LOCAL: &str = ", !alias.scope !13, !noalias !23";

/// Writes `NAME.new` from NAME and a value.
fn modify(name: &str, op: RmwOp, ty: &Type, value: &str, out: &mut Writer) {
    let ty = llvm_type(ty);
    let suffix = match ty.as_str() {
        "float" => "f32",
        "double" => "f64",
        "half" => "f16",
        int => int,
    };
    let intrinsic = match op {
        RmwOp::Max => Some("smax"),
        RmwOp::Min => Some("smin"),
        RmwOp::UMax => Some("umax"),
        RmwOp::UMin => Some("umin"),
        RmwOp::FMax => Some("maxnum"),
        RmwOp::FMin => Some("minnum"),
        _ => None,
    };
    match (op, intrinsic) {
        (_, Some(intrinsic)) => {
            out.declare(format!("declare {ty} @\"llvm.{intrinsic}.{suffix}\"({ty}, {ty})"));
            out.line(&format!(
                "{name}.new = call {ty} @\"llvm.{intrinsic}.{suffix}\"({ty} {name}, {ty} {value})"
            ));
        }
        (RmwOp::Nand, _) => {
            out.line(&format!("{name}.and = and {ty} {name}, {value}"));
            out.line(&format!("{name}.new = xor {ty} {name}.and, -1"));
        }
        (op, _) => out.line(&format!("{name}.new = {} {ty} {name}, {value}", op.name())),
    }
}
