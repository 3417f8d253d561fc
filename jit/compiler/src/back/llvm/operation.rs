//! The LLVM back end: one operation.

use super::Translator;
use super::types::suffix;
use spirula_kir::{CastOp, Commas, Flags, Inst, Op, Predicate, Type, Value};

impl Translator<'_> {
    /// Appends an instruction.
    pub(super) fn instruction(&mut self, inst: Inst) {
        let function = self.function;
        let (op, result) = (function.op(inst), function.result(inst));
        let name = result.map_or(String::new(), |v| self.text(v));
        let ty = result.map_or("void".into(), |v| self.ty(v));
        if let Some(right) = self.computation(op, &ty).or_else(|| self.plain_access(inst, &ty)) {
            let left = if name.is_empty() { String::new() } else { format!("{name} = ") };
            self.out.line(&format!("{left}{right}"));
            return;
        }
        match op {
            // Known by the slot's own name.
            Op::SlotAddress(_) => {}
            Op::Address { base, index, scale, offset, inbounds } => {
                self.address(&name, (*base, *index), (*scale, *offset), *inbounds);
            }
            Op::GlobalAddress(global) => self.global(&name, global),
            Op::MaskedLoad { pointer, mask, align } => {
                if let Some(result) = result {
                    self.masked_load(inst, (&name, function.ty(result)), (*pointer, *mask), *align);
                }
            }
            Op::MaskedStore { pointer, value, mask, align } => {
                self.masked_store(inst, (*pointer, *value, *mask), *align);
            }
            Op::Intrinsic { intrinsic, flags, arguments } => {
                let left = if name.is_empty() { String::new() } else { format!("{name} = ") };
                let operands: Vec<&Type> = arguments.iter().map(|&a| function.ty(a)).collect();
                let instance = intrinsic.instance(result.map(|v| function.ty(v)), &operands);
                let suffixes: String = instance.into_iter().map(|ty| format!(".{}", suffix(ty))).collect();
                let callee = format!("llvm.{}{suffixes}", intrinsic.name());
                let types: Vec<String> = arguments.iter().map(|&a| self.ty(a)).collect();
                self.out.declare(&callee, format!("declare {ty} @\"{callee}\"({})", types.join(", ")));
                let (flags, arguments) = (Flags(flags.0 & Flags::FAST_MATH), self.list(arguments));
                self.out.line(&format!("{left}call{flags} {ty} @\"{callee}\"({arguments})"));
            }
            Op::StreamingFence => {
                self.out.declare("llvm.x86.sse.sfence", "declare void @llvm.x86.sse.sfence()".into());
                self.out.line("call void @llvm.x86.sse.sfence()");
            }
            Op::Call { function: callee, arguments, .. } => self.call(&name, result, callee, arguments),
            op => unreachable!("{op:?} ends with the lowering"),
        }
    }

    /// Operations that are one LLVM instruction with the same operands, as text without a name.
    fn computation(&self, op: &Op, ty: &str) -> Option<String> {
        Some(match op {
            Op::Unary { op, flags, value } => format!("{}{flags} {}", op.name(), self.typed(*value)),
            Op::Binary { op, flags, lhs, rhs } => {
                format!("{}{flags} {}, {}", op.name(), self.typed(*lhs), self.text(*rhs))
            }
            Op::Compare { predicate, flags, lhs, rhs } => {
                let (name, predicate) = match predicate {
                    Predicate::Int(p) => ("icmp", p.name()),
                    Predicate::Float(p) => ("fcmp", p.name()),
                };
                format!("{name}{flags} {predicate} {}, {}", self.typed(*lhs), self.text(*rhs))
            }
            // All pointers are alike.
            Op::Cast { op: CastOp::AddrSpaceCast, value, .. } => {
                format!("bitcast {} to {ty}", self.typed(*value))
            }
            Op::Cast { op, flags, value } => format!("{}{flags} {} to {ty}", op.name(), self.typed(*value)),
            Op::Select { flags, condition, then, otherwise } => {
                format!("select{flags} {}", self.list(&[*condition, *then, *otherwise]))
            }
            Op::ExtractElement { vector, index } => {
                format!("extractelement {}", self.list(&[*vector, *index]))
            }
            Op::InsertElement { vector, element, index } => {
                format!("insertelement {}", self.list(&[*vector, *element, *index]))
            }
            Op::Shuffle { first, second, mask } => {
                let lane = |&lane: &i32| if lane < 0 { "i32 poison".into() } else { format!("i32 {lane}") };
                let lanes: Vec<String> = mask.iter().map(lane).collect();
                let (operands, n) = (self.list(&[*first, *second]), mask.len());
                format!("shufflevector {operands}, <{n} x i32> <{}>", lanes.join(", "))
            }
            Op::ExtractValue { aggregate, indices } => {
                format!("extractvalue {}, {}", self.typed(*aggregate), Commas(indices.iter()))
            }
            Op::InsertValue { aggregate, value, indices } => {
                format!("insertvalue {}, {}", self.list(&[*aggregate, *value]), Commas(indices.iter()))
            }
            _ => return None,
        })
    }

    fn global(&mut self, name: &str, global: &str) {
        self.out.declare(global, format!("@\"{global}\" = external global i8"));
        self.out.line(&format!("{name} = getelementptr i8, ptr @\"{global}\", i64 0"));
    }

    fn call(&mut self, name: &str, result: Option<Value>, callee: &str, arguments: &[Value]) {
        let types: Vec<String> = arguments.iter().map(|&argument| self.ty(argument)).collect();
        let ty = result.map_or("void".into(), |value| self.ty(value));
        self.out.declare(callee, format!("declare {ty} @\"{callee}\"({})", types.join(", ")));
        let left = if name.is_empty() { String::new() } else { format!("{name} = ") };
        self.out.line(&format!("{left}call {ty} @\"{callee}\"({})", self.list(arguments)));
    }
}
