//! Verifier: the types of each operation's operands and result.

use super::tables::is_alignment;
use crate::{
    AddressSpace, BinaryOp, CastOp, Function, Inst, Op, Ordering, Predicate, RmwOp, Scalar, SubGroupOp, Type,
    UnaryOp, Value, WorkItemQuery,
};

/// Checks one instruction, whose indices are known to be right. Says what doesn't fit.
pub(super) fn check(function: &Function, inst: Inst) -> Result<(), String> {
    let op = function.op(inst);
    let result = function.result(inst).map(|value| function.ty(value));
    let typed = Typed { function };
    let fits = match result {
        Some(ty) => typed.yields(op, ty)?,
        None => typed.does(op)?,
    };
    if fits { Ok(()) } else { Err("types don't fit".into()) }
}

struct Typed<'f> {
    function: &'f Function,
}

impl Typed<'_> {
    fn ty(&self, value: Value) -> &Type {
        self.function.ty(value)
    }

    /// Whether an operation with a result is right.
    fn yields(&self, op: &Op, ty: &Type) -> Result<bool, String> {
        let same = |values: &[Value]| values.iter().all(|&value| self.ty(value) == ty);
        Ok(match op {
            Op::Unary { op, value, .. } => same(&[*value]) && (*op == UnaryOp::Freeze || ty.is_float()),
            Op::Binary { op, lhs, rhs, .. } => {
                same(&[*lhs, *rhs]) && if is_float_op(*op) { ty.is_float() } else { is_integer(ty) }
            }
            Op::Compare { predicate, lhs, rhs, .. } => {
                let compared = self.ty(*lhs);
                let is_right_kind = match predicate {
                    Predicate::Int(_) => is_integer(compared) || is_pointer(compared),
                    Predicate::Float(_) => compared.is_float(),
                };
                is_right_kind && compared == self.ty(*rhs) && *ty == compared.with_scalar(Scalar::Int(1))
            }
            Op::Cast { op, value, .. } => cast(*op, self.ty(*value), ty),
            Op::Select { condition, then, otherwise, .. } => {
                let condition = self.ty(*condition);
                let by_lane =
                    condition.scalar() == Some(Scalar::Int(1)) && condition.lane_count() == ty.lane_count();
                same(&[*then, *otherwise]) && (*condition == Type::BOOL || by_lane)
            }
            Op::Address { base, index, .. } => self.address(*base, *index, ty),
            Op::SlotAddress(_) | Op::ContextAddress(_) => {
                matches!(ty.address_space(), Some(AddressSpace::Private | AddressSpace::Context))
            }
            Op::LocalAddress { .. } => ty.address_space() == Some(AddressSpace::Local),
            Op::GlobalAddress(_) => ty.address_space().is_some(),
            Op::Load { pointer, align, ordering, .. } => {
                let ordered = !matches!(ordering, Some(Ordering::Release | Ordering::AcqRel));
                self.access(*pointer, *align) && ordered && (ordering.is_none() || is_atomic(ty))
            }
            Op::MaskedLoad { pointer, mask, align } => self.masked(*pointer, *mask, ty, *align),
            Op::AtomicRmw { op, pointer, value, align, ordering, .. } => {
                let float = matches!(op, RmwOp::FAdd | RmwOp::FSub | RmwOp::FMax | RmwOp::FMin);
                let fits = match ty {
                    Type::Scalar(Scalar::Int(_)) => !float,
                    Type::Scalar(Scalar::Pointer(_)) => *op == RmwOp::Xchg,
                    Type::Scalar(_) => float || *op == RmwOp::Xchg,
                    _ => false,
                };
                let ordered = *ordering != Ordering::Unordered;
                fits && ordered && same(&[*value]) && self.access(*pointer, *align) && is_atomic(ty)
            }
            Op::CompareExchange { pointer, expected, replacement, align, success, failure, .. } => {
                let value = self.ty(*expected);
                let pair = matches!(ty, Type::Struct(members) if members[..] == [value.clone(), Type::BOOL]);
                let plain = matches!(value, Type::Scalar(Scalar::Int(_) | Scalar::Pointer(_)));
                let failure_fits =
                    !matches!(failure, Ordering::Unordered | Ordering::Release | Ordering::AcqRel);
                pair && plain
                    && is_atomic(value)
                    && *success != Ordering::Unordered
                    && failure_fits
                    && value == self.ty(*replacement)
                    && self.access(*pointer, *align)
            }
            Op::ExtractElement { vector, index } => {
                lane(self.ty(*vector)).as_ref() == Some(ty) && is_index(self.ty(*index))
            }
            Op::InsertElement { vector, element, index } => {
                let fits = lane(ty).as_ref() == Some(self.ty(*element)) && is_index(self.ty(*index));
                same(&[*vector]) && fits
            }
            Op::Shuffle { first, second, mask } => {
                let Type::Vector(scalar, n) = self.ty(*first) else { return Ok(false) };
                let in_range = mask.iter().all(|&lane| lane >= -1 && i64::from(lane) < 2 * i64::from(*n));
                let lanes = u32::try_from(mask.len()).ok();
                let fits = lanes.is_some_and(|lanes| *ty == Type::Vector(*scalar, lanes));
                self.ty(*first) == self.ty(*second) && in_range && fits
            }
            Op::ExtractValue { aggregate, indices } => member(self.ty(*aggregate), indices) == Some(ty),
            Op::InsertValue { aggregate, value, indices } => {
                same(&[*aggregate]) && member(ty, indices) == Some(self.ty(*value))
            }
            Op::Intrinsic { .. } => return self.intrinsic(op, Some(ty)),
            Op::WorkItem { query: WorkItemQuery::WorkDim, .. } => *ty == Type::I32,
            Op::WorkItem { dimension, .. } => *ty == Type::I64 && *dimension < 3,
            Op::GroupReduce { op, value } | Op::GroupScan { op, value, .. } => {
                same(&[*value]) && op.takes(ty)
            }
            Op::ContextScan { value, .. } => same(&[*value]),
            Op::SubGroup { op, arguments } => return Ok(self.sub_group(*op, arguments, ty)),
            Op::Call { .. } | Op::ContextLoad(_) => true,
            _ => return Err("the operation yields nothing".into()),
        })
    }

    /// Whether an operation without a result is right.
    fn does(&self, op: &Op) -> Result<bool, String> {
        Ok(match op {
            Op::Store { pointer, value, align, ordering, .. } => {
                let ordered = !matches!(ordering, Some(Ordering::Acquire | Ordering::AcqRel));
                let atomic = ordering.is_none() || is_atomic(self.ty(*value));
                self.access(*pointer, *align) && ordered && atomic
            }
            Op::NontemporalStore { pointer, align, .. } => self.access(*pointer, *align),
            Op::MaskedStore { pointer, value, mask, align } => {
                self.masked(*pointer, *mask, self.ty(*value), *align)
            }
            Op::Fence(ordering) => !matches!(ordering, Ordering::Unordered | Ordering::Monotonic),
            Op::Intrinsic { .. } => return self.intrinsic(op, None),
            Op::StreamingFence | Op::SetExit(_) | Op::Call { .. } | Op::ContextStore(..) => true,
            _ => return Err("the operation yields a value".into()),
        })
    }

    fn access(&self, pointer: Value, align: u32) -> bool {
        self.ty(pointer).address_space().is_some() && is_alignment(align)
    }

    /// Of a vector's lanes: from one place on, or each at its own.
    fn masked(&self, pointer: Value, mask: Value, accessed: &Type, align: u32) -> bool {
        let Type::Vector(_, n) = accessed else { return false };
        let places = match self.ty(pointer) {
            Type::Scalar(Scalar::Pointer(_)) => true,
            Type::Vector(Scalar::Pointer(_), places) => places == n,
            _ => false,
        };
        places && *self.ty(mask) == Type::Vector(Scalar::Int(1), *n) && is_alignment(align)
    }

    /// Base and index may be vectors; scalars stand for all lanes.
    fn address(&self, base: Value, index: Option<Value>, ty: &Type) -> bool {
        let base = self.ty(base);
        let index = index.map(|index| self.ty(index));
        let lanes = [Some(base), index].into_iter().flatten().filter(|ty| ty.lane_count() != Some(None));
        let mut lanes = lanes.map(|ty| ty.lanes());
        let first = lanes.next();
        let same = lanes.all(|n| Some(n) == first);
        let is_i64 = index.is_none_or(|index| index.scalar() == Some(Scalar::Int(64)));
        let expected = match (base.scalar(), first) {
            (Some(scalar @ Scalar::Pointer(_)), Some(n)) => Type::Vector(scalar, n),
            (Some(scalar @ Scalar::Pointer(_)), None) => Type::Scalar(scalar),
            _ => return false,
        };
        same && is_i64 && *ty == expected
    }

    fn sub_group(&self, op: SubGroupOp, arguments: &[Value], ty: &Type) -> bool {
        use SubGroupOp::*;
        match (op, arguments) {
            (Reduce(op) | InclusiveScan(op) | ExclusiveScan(op), &[value]) => {
                self.ty(value) == ty && op.takes(ty)
            }
            (ClusteredReduce(op), &[value, size]) => {
                let size = self.function.constant_int(size);
                self.ty(value) == ty && op.takes(ty) && size.is_some_and(|size| size.is_power_of_two())
            }
            (Shuffle, &[value, index]) => {
                let scalar = matches!(ty, Type::Scalar(_));
                self.ty(value) == ty && scalar && *self.ty(index) == Type::I32
            }
            (Ballot, &[condition]) => *self.ty(condition) == Type::BOOL && *ty == Type::I64,
            _ => false,
        }
    }

    fn intrinsic(&self, op: &Op, result: Option<&Type>) -> Result<bool, String> {
        let Op::Intrinsic { intrinsic, arguments, .. } = op else { return Ok(false) };
        let operands: Vec<&Type> = arguments.iter().map(|&argument| self.ty(argument)).collect();
        intrinsic.check(result, &operands)?;
        for (number, &argument) in arguments.iter().enumerate() {
            if intrinsic.is_constant_operand(number) && self.function.constant_int(argument).is_none() {
                return Err(format!("operand {number} of {} must be a constant", intrinsic.name()));
            }
        }
        Ok(true)
    }
}

fn is_float_op(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::FAdd | BinaryOp::FSub | BinaryOp::FMul | BinaryOp::FDiv | BinaryOp::FRem)
}

fn is_integer(ty: &Type) -> bool {
    matches!(ty.scalar(), Some(Scalar::Int(_)))
}

fn is_pointer(ty: &Type) -> bool {
    matches!(ty.scalar(), Some(Scalar::Pointer(_)))
}

fn is_index(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(Scalar::Int(_)))
}

/// Whether the processor accesses it as a whole: one scalar of 1, 2, 4, 8 or 16 bytes.
fn is_atomic(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(scalar) if scalar.bits() >= 8 && scalar.bits().is_power_of_two())
}

fn lane(vector: &Type) -> Option<Type> {
    if let Type::Vector(scalar, _) = vector { Some(Type::Scalar(*scalar)) } else { None }
}

/// The type of an aggregate's member.
fn member<'t>(aggregate: &'t Type, indices: &[u32]) -> Option<&'t Type> {
    let inner = |ty: Option<&'t Type>, &index: &u32| match ty? {
        Type::Struct(members) => members.get(index as usize),
        Type::Array(element, n) => (u64::from(index) < *n).then_some(&**element),
        _ => None,
    };
    if indices.is_empty() { None } else { indices.iter().fold(Some(aggregate), inner) }
}

fn cast(op: CastOp, from: &Type, to: &Type) -> bool {
    let (Some(a), Some(b)) = (from.scalar(), to.scalar()) else { return false };
    if op == CastOp::BitCast {
        // LLVM has other casts between pointers and integers, and between address spaces.
        let bits = |ty: &Type, scalar: Scalar| scalar.bits() * u64::from(ty.lanes());
        let spaces = match (a, b) {
            (Scalar::Pointer(a), Scalar::Pointer(b)) => a == b,
            (Scalar::Pointer(_), _) | (_, Scalar::Pointer(_)) => false,
            _ => true,
        };
        return bits(from, a) == bits(to, b) && spaces;
    }
    let is_int = |scalar| matches!(scalar, Scalar::Int(_));
    let is_float = |scalar| matches!(scalar, Scalar::Half | Scalar::Float | Scalar::Double);
    let is_pointer = |scalar| matches!(scalar, Scalar::Pointer(_));
    let (narrower, wider) = (b.bits() < a.bits(), b.bits() > a.bits());
    let fits = match op {
        CastOp::Trunc => is_int(a) && is_int(b) && narrower,
        CastOp::ZExt | CastOp::SExt => is_int(a) && is_int(b) && wider,
        CastOp::FpToUi | CastOp::FpToSi => is_float(a) && is_int(b),
        CastOp::UiToFp | CastOp::SiToFp => is_int(a) && is_float(b),
        CastOp::FpTrunc => is_float(a) && is_float(b) && narrower,
        CastOp::FpExt => is_float(a) && is_float(b) && wider,
        CastOp::PtrToInt => is_pointer(a) && is_int(b),
        CastOp::IntToPtr => is_int(a) && is_pointer(b),
        CastOp::AddrSpaceCast => is_pointer(a) && is_pointer(b),
        CastOp::BitCast => false,
    };
    fits && from.lane_count() == to.lane_count()
}
