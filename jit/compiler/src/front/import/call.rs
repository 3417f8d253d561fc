//! Import: calls. Primitives become operations or the end of a block, hints vanish, intrinsics are those of Kernel IR, and what
//! the inliner left is a call.

use super::instruction::flags;
use super::{Import, Importer, types, unsupported};
use crate::builtin::emit::ASKS_FOR_BOTH;
use crate::front::intrinsics::{self, Meaning};
use crate::llvm::{Call, Value};
use inkwell::llvm_sys::LLVMValueKind;
use spirula_kir as kir;
use spirula_kir::transform::check::IMAGE_OUTSIDE;
use spirula_kir::{Constant, Intrinsic, Op, ReduceOp, Shape, SubGroupOp, Type, WorkItemQuery};

/// The primitives of work-group functions and sub-groups.
const COLLECTIVES: [&str; 9] = [
    "group_reduce",
    "group_scan_inclusive",
    "group_scan_exclusive",
    "sub_group_reduce",
    "sub_group_clustered_reduce",
    "sub_group_scan_inclusive",
    "sub_group_scan_exclusive",
    "sub_group_shuffle",
    "sub_group_ballot",
];

/// The primitives that compute something of their arguments are Kernel IR's intrinsics.
fn of_primitive(name: &str) -> Option<Intrinsic> {
    match name {
        "is_local" => Some(Intrinsic::IsLocal),
        "is_private" => Some(Intrinsic::IsPrivate),
        "scale.f32" | "scale.f64" => Some(Intrinsic::Scale),
        _ if name.starts_with("reciprocal.") => Some(Intrinsic::Reciprocal),
        _ => name.starts_with("reciprocal_root.").then_some(Intrinsic::ReciprocalRoot),
    }
}

/// Whether the function of that name is a primitive that only computes something of numbers: that may be done anywhere.
pub(in crate::front) fn only_computes(name: &str) -> bool {
    let intrinsic = name.strip_prefix("spirula.").and_then(of_primitive);
    // (Whether the other of a pair is computed as well is answered before anything is imported.)
    name.starts_with(ASKS_FOR_BOTH)
        || intrinsic.is_some_and(|intrinsic| !matches!(intrinsic, Intrinsic::IsLocal | Intrinsic::IsPrivate))
}

impl<'m> Importer<'m, '_> {
    pub(super) fn call(&mut self, source: Value<'m>) -> Import<Option<kir::Value>> {
        let Some(callee) = source.as_call().and_then(Call::called_function) else {
            return unsupported(source);
        };
        let name = callee.name();
        if let Some(primitive) = name.strip_prefix("spirula.")
            && callee.is_declaration()
        {
            let kind = primitive.split('.').next();
            let is_collective = kind.is_some_and(|kind| COLLECTIVES.contains(&kind));
            return match (of_primitive(primitive), is_collective) {
                (Some(intrinsic), _) => {
                    let arguments = self.arguments(source)?;
                    self.result(source, Op::Intrinsic { intrinsic, flags: flags(source), arguments })
                }
                (None, true) => self.collective(primitive, source),
                _ if primitive == "barrier" => {
                    let flags = self.operand(source, 0)?;
                    self.barrier(flags);
                    Ok(None)
                }
                // The check of images writes something else in its place.
                _ if name == IMAGE_OUTSIDE => {
                    let arguments = self.arguments(source)?;
                    let function = name.as_str().into();
                    self.result(
                        source,
                        Op::Call { function, pure: false, nocapture: true, nosync: true, arguments },
                    )
                }
                _ => self.primitive(primitive),
            };
        }
        if name.starts_with("llvm.") {
            return self.intrinsic(&name, source);
        }
        let Some(function) = self.shared.functions.get(&callee).cloned() else {
            return Err(format!("calls `{name}`, which nothing defines"));
        };
        let arguments = self.arguments(source)?;
        // Which functions are pure is found when all of them are there.
        self.result(source, Op::Call { function, pure: false, nocapture: false, nosync: false, arguments })
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

    /// `group_reduce.add.i32`, `group_scan_exclusive.fmin.f64`, …
    fn collective(&mut self, name: &str, source: Value<'m>) -> Import<Option<kir::Value>> {
        let mut words = name.split('.');
        let (kind, by) = (words.next().unwrap_or_default(), words.next().and_then(ReduceOp::from_name));
        let arguments = self.arguments(source)?;
        let value = arguments[0];
        let op = match (kind, by) {
            ("group_reduce", Some(op)) => Op::GroupReduce { op, value },
            ("group_scan_inclusive", Some(op)) => Op::GroupScan { op, inclusive: true, value },
            ("group_scan_exclusive", Some(op)) => Op::GroupScan { op, inclusive: false, value },
            _ => {
                let op = match (kind, by) {
                    ("sub_group_reduce", Some(op)) => SubGroupOp::Reduce(op),
                    ("sub_group_clustered_reduce", Some(op)) => SubGroupOp::ClusteredReduce(op),
                    ("sub_group_scan_inclusive", Some(op)) => SubGroupOp::InclusiveScan(op),
                    ("sub_group_scan_exclusive", Some(op)) => SubGroupOp::ExclusiveScan(op),
                    ("sub_group_shuffle", _) => SubGroupOp::Shuffle,
                    ("sub_group_ballot", _) => SubGroupOp::Ballot,
                    _ => return Err(format!("calls the unknown primitive `spirula.{name}`")),
                };
                if matches!(op, SubGroupOp::ClusteredReduce(_))
                    && !self.function.constant_int(arguments[1]).is_some_and(u128::is_power_of_two)
                {
                    return Err("reduces clusters whose size is no constant power of two".into());
                }
                Op::SubGroup { op, arguments }
            }
        };
        self.result(source, op)
    }

    /// `printf_buffer`, `enqueue_parent`, `work_dim`, `global_id.0`, …
    fn primitive(&mut self, name: &str) -> Import<Option<kir::Value>> {
        if name == "printf_buffer" && self.printf_buffer.is_some() {
            return Ok(self.printf_buffer);
        }
        if name == "enqueue_parent" && self.parent.is_some() {
            return Ok(self.parent);
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
        match intrinsics::meaning(name) {
            Some(Meaning::Operation(intrinsic)) => self.operation_of(intrinsic, source),
            Some(Meaning::Hint) if source.ty().is_void() => Ok(None),
            Some(Meaning::Hint) => {
                let ty = types::import(source.ty())?;
                Ok(Some(self.function.constant(ty, Constant::Undef)))
            }
            Some(Meaning::Transparent) => self.operand(source, 0).map(Some),
            Some(Meaning::IsConstant) => Ok(Some(self.function.int(Type::BOOL, 0))),
            Some(Meaning::ObjectSize) => {
                // Unknown: -1, or 0 if the second argument asks for the least size.
                let least = source.operand(1).is_some_and(|least| !least.is_null());
                let ty = types::import(source.ty())?;
                let bits = source.ty().integer_width();
                let all = u128::MAX >> (128 - bits.clamp(1, 128));
                Ok(Some(self.function.int(ty, if least { 0 } else { all })))
            }
            None => Err(format!("calls the intrinsic `{name}`, which SPIR doesn't have")),
        }
    }

    fn operation_of(&mut self, intrinsic: Intrinsic, source: Value<'m>) -> Import<Option<kir::Value>> {
        let done = match intrinsic.shape() {
            Shape::Copy => self.copy(source)?,
            Shape::Fill => self.set(source)?,
            _ => false,
        };
        if done {
            return Ok(None);
        }
        let arguments = self.arguments(source)?;
        let types: Vec<&Type> = arguments.iter().map(|&argument| self.function.ty(argument)).collect();
        let result = if source.ty().is_void() { None } else { Some(types::import(source.ty())?) };
        intrinsic.check(result.as_ref(), &types).map_err(|error| format!("contains `{source}`: {error}"))?;
        self.result(source, Op::Intrinsic { intrinsic, flags: flags(source), arguments })
    }
}
