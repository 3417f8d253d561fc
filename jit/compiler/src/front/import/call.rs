//! Import: calls. Primitives become operations or the end of a block, hints vanish, intrinsics keep their names, and what
//! the inliner left is a call of a function that stays LLVM.

use super::instruction::flags;
use super::{Import, Importer, types, unsupported};
use crate::llvm::{Call, Value};
use inkwell::llvm_sys::LLVMValueKind;
use spirula_kir as kir;
use spirula_kir::{Constant, Flags, Op, Type, WorkItemQuery};

/// Intrinsics that only tell optimizers something.
const HINTS: [&str; 8] = [
    "llvm.dbg.",
    "llvm.lifetime.",
    "llvm.invariant.",
    "llvm.assume",
    "llvm.donothing",
    "llvm.sideeffect",
    "llvm.var.annotation",
    "llvm.experimental.noalias.scope.decl",
];

/// Intrinsics that yield their first argument.
const TRANSPARENT: [&str; 5] = [
    "llvm.expect",
    "llvm.annotation",
    "llvm.ptr.annotation",
    "llvm.ssa.copy",
    "llvm.launder.invariant.group",
];

impl<'m> Importer<'m, '_> {
    pub(super) fn call(&mut self, source: Value<'m>) -> Import<Option<kir::Value>> {
        let Some(callee) = source.as_call().and_then(Call::called_function) else {
            return unsupported(source);
        };
        let name = callee.name();
        if let Some(primitive) = name.strip_prefix("spirula.")
            && callee.is_declaration()
        {
            return match primitive.starts_with("reciprocal_root.") {
                true => self.element_primitive(primitive, source),
                false => self.primitive(primitive),
            };
        }
        if name.starts_with("llvm.") {
            return self.intrinsic(&name, source);
        }
        let arguments = self.arguments(source)?;
        let pure = callee.is_pure();
        self.used.insert(name.clone());
        self.result(source, Op::Call { function: name.into(), pure, arguments })
    }

    fn arguments(&mut self, source: Value<'m>) -> Import<Vec<kir::Value>> {
        let arguments = source.as_call().map(Call::arguments).unwrap_or_default();
        if arguments.iter().any(|argument| argument.kind() == LLVMValueKind::LLVMMetadataAsValueValueKind) {
            return unsupported(source);
        }
        arguments.into_iter().map(|argument| self.value(argument)).collect()
    }

    fn result(&mut self, source: Value<'m>, op: Op) -> Import<Option<kir::Value>> {
        if source.ty().is_void() {
            self.effect(op);
            return Ok(None);
        }
        Ok(Some(self.push(types::import(source.ty())?, op)))
    }

    /// A primitive that works element by element is one of Kernel IR's intrinsics.
    fn element_primitive(&mut self, name: &str, source: Value<'m>) -> Import<Option<kir::Value>> {
        let arguments = self.arguments(source)?;
        let name = format!("llvm.spirula.{name}").into();
        self.result(source, Op::Intrinsic { name, flags: Flags::NONE, arguments })
    }

    /// `barrier`, `printf_buffer`, `work_dim`, `global_id.0`, …
    fn primitive(&mut self, name: &str) -> Import<Option<kir::Value>> {
        if name == "barrier" {
            self.barrier();
            return Ok(None);
        }
        if name == "printf_buffer" && self.printf_buffer.is_some() {
            return Ok(self.printf_buffer);
        }
        let (query, dimension) = match name.split_once('.') {
            Some((query, dimension)) => (query, dimension.parse().ok().filter(|&d: &u8| d < 3)),
            None => (name, Some(0)),
        };
        let (Some(query), Some(dimension)) = (WorkItemQuery::from_name(query), dimension) else {
            return Err(format!("calls the unknown primitive `spirula.{name}`"));
        };
        let ty = if query == WorkItemQuery::WorkDim { Type::I32 } else { Type::I64 };
        Ok(Some(self.push(ty, Op::WorkItem { query, dimension })))
    }

    fn intrinsic(&mut self, name: &str, source: Value<'m>) -> Import<Option<kir::Value>> {
        let is = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix));
        if is(&HINTS) {
            if source.ty().is_void() {
                return Ok(None);
            }
            let ty = types::import(source.ty())?;
            return Ok(Some(self.function.constant(ty, Constant::Undef)));
        }
        if is(&TRANSPARENT) {
            return self.operand(source, 0).map(Some);
        }
        if name.starts_with("llvm.is.constant") {
            return Ok(Some(self.function.int(Type::BOOL, 0)));
        }
        if name.starts_with("llvm.objectsize") {
            // Unknown: -1, or 0 if the second argument asks for the least size.
            let least = source.operand(1).is_some_and(|least| !least.is_null());
            let ty = types::import(source.ty())?;
            let bits = source.ty().integer_width();
            let all = u128::MAX >> (128 - bits.clamp(1, 128));
            return Ok(Some(self.function.int(ty, if least { 0 } else { all })));
        }
        let done = if name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.") {
            self.copy(source)?
        } else if name.starts_with("llvm.memset.") {
            self.set(source)?
        } else {
            false
        };
        if done {
            return Ok(None);
        }
        let arguments = self.arguments(source)?;
        self.result(source, Op::Intrinsic { name: name.into(), flags: flags(source), arguments })
    }
}
