//! Shadows: for each value an integer of its shape, whose bits are set where the value's bits depend on what nothing wrote.
//! A value without a shadow depends on nothing of the kind.
//!
//! Where bits are known whatever the others are (`and`, shifts, comparisons of what differs elsewhere), they count as known: bit-fields and
//! packed numbers are no faults. Sums pass on the bits they are made of, without carries; all else is unknown as a whole, lane by lane.

use crate::builder::Builder;
use crate::{
    BinaryOp, CastOp, Constant, Flags, FloatPredicate, Function, Inst, IntPredicate, Intrinsic, Op,
    Predicate, Scalar, Shape, SubGroupOp, Type, Value, ValueDef,
};
use std::collections::HashMap;

/// The shadows of a function's values.
#[derive(Default)]
pub(super) struct Shadows(HashMap<Value, Value>);

impl Shadows {
    /// A value's shadow, if it may depend on what nothing wrote.
    pub fn get(&self, builder: &mut Builder, value: Value) -> Option<Value> {
        match builder.function.def(value) {
            ValueDef::Constant(constant) if has_undefined(constant) => {
                let constant = constant.clone();
                let (ty, shadow) = of_constant(builder.function.ty(value), &constant);
                Some(builder.constant(ty, shadow))
            }
            _ => self.0.get(&value).copied(),
        }
    }

    /// The same, with no bit set if there is none.
    pub fn or_known(&self, builder: &mut Builder, value: Value) -> Value {
        self.get(builder, value).unwrap_or_else(|| {
            let ty = shadow_type(&builder.ty(value));
            builder.constant(ty, Constant::Zero)
        })
    }

    pub fn set(&mut self, value: Value, shadow: Option<Value>) {
        self.0.extend(shadow.map(|shadow| (value, shadow)));
    }

    /// The shadow of what an operation on registers yields.
    pub fn of(&self, builder: &mut Builder, inst: Inst) -> Option<Value> {
        let result = builder.function.result(inst)?;
        let (op, ty) = (builder.function.op(inst).clone(), builder.ty(result));
        match op {
            Op::Unary { value, .. } => self.get(builder, value),
            Op::Binary { op, lhs, rhs, .. } => self.binary(builder, op, (lhs, rhs), &ty),
            Op::Compare { predicate, lhs, rhs, .. } => self.compare(builder, predicate, lhs, rhs),
            Op::Cast { op, value, .. } => self.cast(builder, op, value, &ty),
            Op::Select { condition, then, otherwise, .. } => {
                self.select(builder, condition, (then, otherwise), &ty)
            }
            Op::ExtractElement { vector, index } => {
                let lanes = self.get(builder, vector);
                let lane =
                    lanes.map(|vector| builder.push(shadow_type(&ty), Op::ExtractElement { vector, index }));
                let chosen = self.whole(builder, &[index], &ty);
                either(builder, lane, chosen)
            }
            Op::InsertElement { vector, element, index } => {
                if self.get(builder, vector).is_none() && self.get(builder, element).is_none() {
                    return self.whole(builder, &[index], &ty);
                }
                let (vector, element) = (self.or_known(builder, vector), self.or_known(builder, element));
                let lanes = builder.push(shadow_type(&ty), Op::InsertElement { vector, element, index });
                let chosen = self.whole(builder, &[index], &ty);
                either(builder, Some(lanes), chosen)
            }
            Op::Shuffle { first, second, mask } => self.shuffle(builder, (first, second), &mask, &ty),
            Op::ExtractValue { aggregate, indices } => {
                let aggregate = self.get(builder, aggregate)?;
                Some(builder.push(shadow_type(&ty), Op::ExtractValue { aggregate, indices }))
            }
            Op::InsertValue { aggregate, value, indices } => {
                if self.get(builder, aggregate).is_none() && self.get(builder, value).is_none() {
                    return None;
                }
                let (aggregate, value) = (self.or_known(builder, aggregate), self.or_known(builder, value));
                Some(builder.push(shadow_type(&ty), Op::InsertValue { aggregate, value, indices }))
            }
            Op::Intrinsic { intrinsic, arguments, .. } => self.intrinsic(builder, intrinsic, &arguments, &ty),
            Op::SubGroup { op: SubGroupOp::Shuffle, arguments } => {
                let [value, index] = arguments[..] else { return None };
                let shadow = self.or_known(builder, value);
                let op = Op::SubGroup { op: SubGroupOp::Shuffle, arguments: vec![shadow, index] };
                let moved = builder.push(shadow_type(&ty), op);
                let chosen = self.whole(builder, &[index], &ty);
                either(builder, Some(moved), chosen)
            }
            Op::Address { base, index, .. } => {
                let operands: Vec<Value> = [Some(base), index].into_iter().flatten().collect();
                self.whole(builder, &operands, &ty)
            }
            Op::Call { arguments, .. } => self.whole(builder, &arguments, &ty),
            _ => None,
        }
    }

    fn binary(
        &self,
        builder: &mut Builder,
        op: BinaryOp,
        (lhs, rhs): (Value, Value),
        ty: &Type,
    ) -> Option<Value> {
        let (a, b) = (self.get(builder, lhs), self.get(builder, rhs));
        if a.is_none() && b.is_none() {
            return None;
        }
        match op {
            // A bit that decides alone: 0 of an `and`, 1 of an `or`.
            BinaryOp::And | BinaryOp::Or => {
                let mut open = |value: Value| if op == BinaryOp::Or { not(builder, value) } else { value };
                let (from_a, from_b) = (open(rhs), open(lhs));
                let of_a = a.map(|a| builder.binary(BinaryOp::And, 0, a, from_a));
                let of_b = b.map(|b| builder.binary(BinaryOp::And, 0, b, from_b));
                let both = a.zip(b).map(|(a, b)| builder.binary(BinaryOp::And, 0, a, b));
                let one = either(builder, of_a, of_b);
                either(builder, one, both)
            }
            BinaryOp::Xor | BinaryOp::Add | BinaryOp::Sub => either(builder, a, b),
            BinaryOp::Mul => self.product(builder, (lhs, rhs), ty),
            BinaryOp::Shl | BinaryOp::LShr | BinaryOp::AShr => {
                let moved = a.map(|a| builder.binary(op, 0, a, rhs));
                let amount = self.whole(builder, &[rhs], ty);
                either(builder, moved, amount)
            }
            BinaryOp::UDiv | BinaryOp::URem => match (a, least_power(builder.function, rhs)) {
                (Some(a), Some((power, true))) if b.is_none() && op == BinaryOp::UDiv => {
                    let by = lanes_of(builder, &shadow_type(ty), power.into());
                    Some(builder.binary(BinaryOp::LShr, 0, a, by))
                }
                (Some(a), Some((power, true))) if b.is_none() => {
                    let mask = lanes_of(builder, &shadow_type(ty), (1 << power) - 1);
                    Some(builder.binary(BinaryOp::And, 0, a, mask))
                }
                _ => self.whole(builder, &[lhs, rhs], ty),
            },
            _ => self.whole(builder, &[lhs, rhs], ty),
        }
    }

    /// What is unknown of a factor reaches all bits above it, and nothing if the other one is 0.
    fn product(&self, builder: &mut Builder, (lhs, rhs): (Value, Value), ty: &Type) -> Option<Value> {
        let (a, b) = (self.get(builder, lhs), self.get(builder, rhs));
        let sum = either(builder, a, b)?;
        let other = match (a, b) {
            (Some(_), None) => Some(rhs),
            (None, Some(_)) => Some(lhs),
            _ => None,
        };
        let moved = match other.and_then(|other| least_power(builder.function, other)) {
            Some((power, _)) => {
                let by = lanes_of(builder, &shadow_type(ty), power.into());
                builder.binary(BinaryOp::Shl, 0, sum, by)
            }
            None => sum,
        };
        let zero = builder.constant(ty.clone(), Constant::Zero);
        let least = builder.binary(BinaryOp::Sub, 0, zero, moved);
        let all = builder.binary(BinaryOp::Or, 0, moved, least);
        match other.filter(|&other| least_power(builder.function, other).is_none()) {
            Some(other) => {
                let none = compare_lanes(builder, IntPredicate::Eq, other, zero);
                Some(builder.select(none, zero, all))
            }
            None => Some(all),
        }
    }

    fn compare(&self, builder: &mut Builder, predicate: Predicate, lhs: Value, rhs: Value) -> Option<Value> {
        let (a, b) = (self.get(builder, lhs), self.get(builder, rhs));
        let sum = either(builder, a, b)?;
        let predicate = match predicate {
            Predicate::Int(predicate) => predicate,
            Predicate::Float(FloatPredicate::True | FloatPredicate::False) => return None,
            Predicate::Float(_) => {
                let ty = builder.ty(lhs).with_scalar(Scalar::Int(1));
                return self.whole(builder, &[lhs, rhs], &ty);
            }
        };
        let [lhs, rhs] = [lhs, rhs].map(|value| bits(builder, value));
        let zero = builder.constant(builder.ty(sum), Constant::Zero);
        if matches!(predicate, IntPredicate::Eq | IntPredicate::Ne) {
            // Known if known bits differ.
            let difference = builder.binary(BinaryOp::Xor, 0, lhs, rhs);
            let known = not(builder, sum);
            let differs = builder.binary(BinaryOp::And, 0, difference, known);
            let unknown = compare_lanes(builder, IntPredicate::Ne, sum, zero);
            let equal = compare_lanes(builder, IntPredicate::Eq, differs, zero);
            return Some(builder.binary(BinaryOp::And, 0, unknown, equal));
        }
        // Known if the least and the largest that they may be compare alike.
        let (predicate, signed) = unsigned(predicate);
        let mut place = |value: Value| match signed {
            true => {
                let ty = builder.ty(value);
                let width = ty.scalar().map_or(1, Scalar::bits);
                let sign = lanes_of(builder, &ty, 1 << (width - 1));
                builder.binary(BinaryOp::Xor, 0, value, sign)
            }
            false => value,
        };
        let (lhs, rhs) = (place(lhs), place(rhs));
        let (a, b) = (a.unwrap_or(zero), b.unwrap_or(zero));
        let mut least = |value, shadow| {
            let known = not(builder, shadow);
            builder.binary(BinaryOp::And, 0, value, known)
        };
        let (least_lhs, least_rhs) = (least(lhs, a), least(rhs, b));
        let largest_lhs = builder.binary(BinaryOp::Or, 0, lhs, a);
        let largest_rhs = builder.binary(BinaryOp::Or, 0, rhs, b);
        let one = compare_lanes(builder, predicate, least_lhs, largest_rhs);
        let other = compare_lanes(builder, predicate, largest_lhs, least_rhs);
        Some(builder.binary(BinaryOp::Xor, 0, one, other))
    }

    fn cast(&self, builder: &mut Builder, op: CastOp, value: Value, ty: &Type) -> Option<Value> {
        let shadow = self.get(builder, value)?;
        let (from, to) = (builder.ty(shadow), shadow_type(ty));
        let width = |ty: &Type| ty.scalar().map_or(0, Scalar::bits);
        let op = match op {
            CastOp::Trunc | CastOp::ZExt | CastOp::SExt => op,
            CastOp::PtrToInt | CastOp::IntToPtr if width(&to) < width(&from) => CastOp::Trunc,
            CastOp::PtrToInt | CastOp::IntToPtr => CastOp::ZExt,
            CastOp::BitCast | CastOp::AddrSpaceCast => CastOp::BitCast,
            _ => return self.whole(builder, &[value], ty),
        };
        Some(if from == to { shadow } else { builder.cast(op, to, shadow) })
    }

    /// Of one of two: which one it is doesn't matter where they are alike.
    fn select(
        &self,
        builder: &mut Builder,
        condition: Value,
        (then, otherwise): (Value, Value),
        ty: &Type,
    ) -> Option<Value> {
        let (a, b) = (self.get(builder, then), self.get(builder, otherwise));
        let chosen = (a.is_some() || b.is_some()).then(|| {
            let (a, b) = (self.or_known(builder, then), self.or_known(builder, otherwise));
            builder.select(condition, a, b)
        });
        let open = self.get(builder, condition);
        let (Some(open), true) = (open, ty.lane_count().is_some()) else { return chosen };
        let (x, y) = (bits(builder, then), bits(builder, otherwise));
        let mut different = builder.binary(BinaryOp::Xor, 0, x, y);
        for shadow in [a, b].into_iter().flatten() {
            different = builder.binary(BinaryOp::Or, 0, different, shadow);
        }
        let open = spread(builder, open, ty);
        let other = builder.binary(BinaryOp::And, 0, open, different);
        either(builder, chosen, Some(other))
    }

    fn shuffle(
        &self,
        builder: &mut Builder,
        (first, second): (Value, Value),
        mask: &[i32],
        ty: &Type,
    ) -> Option<Value> {
        let ty = shadow_type(ty);
        let known = self.get(builder, first).is_none() && self.get(builder, second).is_none();
        let moved = (!known).then(|| {
            let (first, second) = (self.or_known(builder, first), self.or_known(builder, second));
            let mask: Vec<i32> = mask.iter().map(|&lane| lane.max(0)).collect();
            builder.push(ty.clone(), Op::Shuffle { first, second, mask: mask.into() })
        });
        if mask.iter().all(|&lane| lane >= 0) {
            return moved;
        }
        let lane = Type::Scalar(ty.scalar()?);
        let lanes = mask.iter().map(|&from| if from < 0 { ones(&lane) } else { Constant::Int(0) });
        let missing = Constant::Elements(lanes.map(|constant| (lane.clone(), constant)).collect());
        let missing = builder.constant(ty, missing);
        either(builder, moved, Some(missing))
    }

    fn intrinsic(
        &self,
        builder: &mut Builder,
        intrinsic: Intrinsic,
        arguments: &[Value],
        ty: &Type,
    ) -> Option<Value> {
        match (intrinsic.shape(), intrinsic) {
            (_, Intrinsic::BitReverse | Intrinsic::ByteSwap) => {
                let shadow = self.get(builder, arguments[0])?;
                Some(builder.intrinsic(intrinsic, &[shadow]))
            }
            (_, Intrinsic::FunnelShiftLeft | Intrinsic::FunnelShiftRight) => {
                if arguments[..2].iter().all(|&argument| self.get(builder, argument).is_none()) {
                    return self.whole(builder, arguments, ty);
                }
                let [high, low] = [arguments[0], arguments[1]].map(|value| self.or_known(builder, value));
                let moved = builder.intrinsic(intrinsic, &[high, low, arguments[2]]);
                let amount = self.whole(builder, &arguments[2..], ty);
                either(builder, Some(moved), amount)
            }
            (_, Intrinsic::ReduceOr | Intrinsic::ReduceAnd | Intrinsic::ReduceXor) => {
                let shadow = self.get(builder, arguments[0])?;
                let any = builder.push_intrinsic(ty.clone(), Intrinsic::ReduceOr, &[shadow]);
                // A lane that decides alone.
                let deciding = match intrinsic {
                    Intrinsic::ReduceOr => arguments[0],
                    Intrinsic::ReduceAnd => not(builder, arguments[0]),
                    _ => return Some(any),
                };
                let known = not(builder, shadow);
                let deciding = builder.binary(BinaryOp::And, 0, deciding, known);
                let decided = builder.push_intrinsic(ty.clone(), Intrinsic::ReduceOr, &[deciding]);
                let open = not(builder, decided);
                Some(builder.binary(BinaryOp::And, 0, any, open))
            }
            (Shape::Copy | Shape::Fill | Shape::Prefetch | Shape::SpaceTest, _) => None,
            _ => self.whole(builder, arguments, ty),
        }
    }

    /// All bits of a lane if any of the operands' lanes has one; of all lanes, if the operands have others.
    fn whole(&self, builder: &mut Builder, operands: &[Value], ty: &Type) -> Option<Value> {
        let mut all: Option<Value> = None;
        for &operand in operands {
            let Some(shadow) = self.get(builder, operand) else { continue };
            let same_lanes = builder.ty(shadow).lane_count() == ty.lane_count();
            let unknown = if same_lanes && ty.lane_count().is_some() {
                let zero = builder.constant(builder.ty(shadow), Constant::Zero);
                compare_lanes(builder, IntPredicate::Ne, shadow, zero)
            } else {
                any(builder, shadow)
            };
            let unknown = spread(builder, unknown, ty);
            all = either(builder, all, Some(unknown));
        }
        all
    }
}

/// The type of a value's shadow.
pub(super) fn shadow_type(ty: &Type) -> Type {
    match ty {
        Type::Scalar(scalar) => Type::int(scalar.bits() as u32),
        Type::Vector(scalar, lanes) => Type::Vector(Scalar::Int(scalar.bits() as u32), *lanes),
        Type::Struct(members) => Type::Struct(members.iter().map(shadow_type).collect()),
        Type::Array(element, length) => Type::Array(shadow_type(element).into(), *length),
    }
}

/// Whether any of a constant's bits may be anything.
pub(super) fn has_undefined(constant: &Constant) -> bool {
    match constant {
        Constant::Undef | Constant::Poison => true,
        Constant::Elements(list) => list.iter().any(|(_, element)| has_undefined(element)),
        _ => false,
    }
}

/// A constant with zeros where it may be anything: code that goes by something unknown is not to be optimized by that.
pub(super) fn defined(constant: &Constant) -> Constant {
    match constant {
        Constant::Undef | Constant::Poison => Constant::Zero,
        Constant::Elements(list) => {
            Constant::Elements(list.iter().map(|(ty, element)| (ty.clone(), defined(element))).collect())
        }
        other => other.clone(),
    }
}

fn of_constant(ty: &Type, constant: &Constant) -> (Type, Constant) {
    let shadow = shadow_type(ty);
    let bits = match constant {
        Constant::Undef | Constant::Poison => ones(&shadow),
        Constant::Elements(list) => {
            Constant::Elements(list.iter().map(|(ty, element)| of_constant(ty, element)).collect())
        }
        _ => Constant::Zero,
    };
    (shadow, bits)
}

/// All bits of a shadow.
fn ones(ty: &Type) -> Constant {
    let repeated = |element: Type, count: usize| {
        let bits = ones(&element);
        Constant::Elements(vec![(element, bits); count])
    };
    match ty {
        Type::Scalar(scalar) => Constant::Int(u128::MAX >> (128 - scalar.bits())),
        Type::Vector(scalar, lanes) => repeated(Type::Scalar(*scalar), *lanes as usize),
        Type::Array(element, length) => repeated((**element).clone(), *length as usize),
        Type::Struct(members) => {
            Constant::Elements(members.iter().map(|member| (member.clone(), ones(member))).collect())
        }
    }
}

/// An integer in each lane.
fn lanes_of(builder: &mut Builder, ty: &Type, bits: u128) -> Value {
    match ty {
        Type::Vector(scalar, lanes) => {
            let lane = (Type::Scalar(*scalar), Constant::Int(bits));
            builder.constant(ty.clone(), Constant::Elements(vec![lane; *lanes as usize]))
        }
        _ => builder.function.int(ty.clone(), bits),
    }
}

/// The power of two that a constant's lanes all are multiples of, and whether they all are it.
fn least_power(function: &Function, value: Value) -> Option<(u32, bool)> {
    let lanes = match function.def(value) {
        ValueDef::Constant(Constant::Int(bits)) => vec![*bits],
        ValueDef::Constant(Constant::Elements(list)) => list
            .iter()
            .map(|(_, lane)| if let Constant::Int(bits) = lane { Some(*bits) } else { None })
            .collect::<Option<Vec<u128>>>()?,
        _ => return None,
    };
    let width = function.ty(value).scalar()?.bits() as u32;
    let power = lanes.iter().map(|lane| lane.trailing_zeros()).min()?;
    (power < width).then(|| (power, lanes.iter().all(|&lane| lane == 1 << power)))
}

/// The unsigned comparison of the same order, and whether its sign bits have to be turned for it.
fn unsigned(predicate: IntPredicate) -> (IntPredicate, bool) {
    use IntPredicate::*;
    match predicate {
        Sgt => (Ugt, true),
        Sge => (Uge, true),
        Slt => (Ult, true),
        Sle => (Ule, true),
        other => (other, false),
    }
}

/// A value's bits as integers.
fn bits(builder: &mut Builder, value: Value) -> Value {
    let ty = builder.ty(value);
    let to = shadow_type(&ty);
    match ty.scalar() {
        _ if ty == to => value,
        Some(Scalar::Pointer(_)) => builder.cast(CastOp::PtrToInt, to, value),
        _ => builder.cast(CastOp::BitCast, to, value),
    }
}

fn compare_lanes(builder: &mut Builder, predicate: IntPredicate, lhs: Value, rhs: Value) -> Value {
    let ty = builder.ty(lhs).with_scalar(Scalar::Int(1));
    let predicate = Predicate::Int(predicate);
    builder.push(ty, Op::Compare { predicate, flags: Flags::NONE, lhs, rhs })
}

/// The bits of both.
pub(super) fn either(builder: &mut Builder, a: Option<Value>, b: Option<Value>) -> Option<Value> {
    match (a, b) {
        (Some(a), Some(b)) if builder.ty(a).lane_count().is_some() => {
            Some(builder.binary(BinaryOp::Or, 0, a, b))
        }
        (a, b) => a.or(b),
    }
}

/// All bits the other way round; of a structure, those of each member.
pub(super) fn not(builder: &mut Builder, value: Value) -> Value {
    let ty = builder.ty(value);
    let members: Vec<Type> = match &ty {
        Type::Struct(members) => members.to_vec(),
        Type::Array(element, length) => vec![(**element).clone(); *length as usize],
        _ => {
            let all = builder.constant(ty.clone(), ones(&ty));
            return builder.binary(BinaryOp::Xor, 0, value, all);
        }
    };
    let mut whole = value;
    for (number, member) in (0..).zip(members) {
        let part = builder.push(member, Op::ExtractValue { aggregate: value, indices: [number].into() });
        let value = not(builder, part);
        whole =
            builder.push(ty.clone(), Op::InsertValue { aggregate: whole, value, indices: [number].into() });
    }
    whole
}

/// A condition, or one for each lane, as all bits of a shadow.
fn spread(builder: &mut Builder, condition: Value, ty: &Type) -> Value {
    let to = shadow_type(ty);
    if to.lane_count().is_none() {
        let (all, none) = (ones(&to), Constant::Zero);
        let (all, none) = (builder.constant(to.clone(), all), builder.constant(to, none));
        return builder.select(condition, all, none);
    }
    let bit = to.with_scalar(Scalar::Int(1));
    let lanes = if builder.ty(condition) == bit { condition } else { builder.splat(condition, &bit) };
    if bit == to { lanes } else { builder.cast(CastOp::SExt, to, lanes) }
}

/// Whether a shadow has any bit.
pub(super) fn any(builder: &mut Builder, shadow: Value) -> Value {
    let lanes = lanes(builder, shadow);
    lanes
        .into_iter()
        .reduce(|a, b| builder.binary(BinaryOp::Or, 0, a, b))
        .unwrap_or_else(|| builder.function.int(Type::BOOL, 0))
}

/// Whether each of a shadow's lanes has any bit.
pub(super) fn in_each_lane(builder: &mut Builder, shadow: Value) -> Value {
    let lanes = lanes(builder, shadow);
    lanes
        .into_iter()
        .reduce(|a, b| builder.binary(BinaryOp::And, 0, a, b))
        .unwrap_or_else(|| builder.function.int(Type::BOOL, 0))
}

/// For each scalar in a shadow whether it has any bit.
fn lanes(builder: &mut Builder, shadow: Value) -> Vec<Value> {
    let ty = builder.ty(shadow);
    let parts: Vec<Value> = match &ty {
        Type::Scalar(_) => {
            let zero = builder.constant(ty.clone(), Constant::Zero);
            let is_bit = ty == Type::BOOL;
            return vec![if is_bit { shadow } else { builder.compare(IntPredicate::Ne, shadow, zero) }];
        }
        Type::Vector(scalar, lanes) => {
            let mut lane = |number: u32| {
                let index = builder.function.int(Type::I32, number.into());
                builder.push(Type::Scalar(*scalar), Op::ExtractElement { vector: shadow, index })
            };
            (0..*lanes).map(&mut lane).collect()
        }
        Type::Struct(members) => {
            let mut member = |(number, ty): (u32, &Type)| {
                builder.push(ty.clone(), Op::ExtractValue { aggregate: shadow, indices: [number].into() })
            };
            (0..).zip(members.iter()).map(&mut member).collect()
        }
        Type::Array(element, length) => {
            let mut member = |number: u32| {
                let op = Op::ExtractValue { aggregate: shadow, indices: [number].into() };
                builder.push((**element).clone(), op)
            };
            (0..*length as u32).map(&mut member).collect()
        }
    };
    parts.into_iter().flat_map(|part| lanes(builder, part)).collect()
}
