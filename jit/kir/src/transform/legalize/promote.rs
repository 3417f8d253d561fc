//! Legalization: integers of odd widths live in the next width that a register has, zero-extended; operations that look
//! at the sign extend it first. Arithmetic on i1 is done on i8.

mod memory;

use super::Illegal;
use super::replace::{Outcome, replace};
use crate::builder::Builder;
use crate::{
    BinaryOp, CastOp, Constant, Flags, Function, Inst, IntPredicate, Intrinsic, Op, Predicate, Scalar,
    Signature, Type, UnaryOp, Value, ValueDef,
};

/// Leaves integers of 1, 8, 16, 32, 64 and 128 bits. Operations that it doesn't know are [`super::expand_operations`]'.
pub fn promote_integers(function: &mut Function) -> Result<(), Illegal> {
    let before = Before::new(function);
    if !before.0.is_empty() {
        retype(function);
    }
    replace(function, |builder, inst| promote(builder, inst, &before))?;
    if !before.0.is_empty() {
        for block in function.block_ids() {
            let mut terminator = function.block(block).terminator.clone();
            terminator.operands_mut().into_iter().for_each(|value| *value = operand(function, *value));
            function.set_terminator(block, terminator);
        }
    }
    Ok(())
}

/// The types that values had; empty if they still have them.
struct Before(Vec<Type>);

impl Before {
    fn new(function: &Function) -> Self {
        if function.value_table().all(|(_, ty, _)| is_legal(ty)) {
            return Before(Vec::new());
        }
        Before(function.value_table().map(|(_, ty, _)| ty.clone()).collect())
    }

    fn ty<'t>(&'t self, function: &'t Function, value: Value) -> &'t Type {
        self.0.get(value.index()).unwrap_or_else(|| function.ty(value))
    }

    /// An integer's width; 0 of what is none.
    fn width(&self, function: &Function, value: Value) -> u32 {
        match self.ty(function, value) {
            Type::Scalar(Scalar::Int(width)) => *width,
            _ => 0,
        }
    }
}

/// The width of the register that holds such an integer.
fn register(width: u32) -> u32 {
    match width {
        1 => 1,
        ..=8 => 8,
        _ => width.next_power_of_two(),
    }
}

fn is_odd(width: u32) -> bool {
    width > 0 && register(width) != width
}

fn is_legal(ty: &Type) -> bool {
    match ty {
        Type::Scalar(Scalar::Int(width)) => !is_odd(*width),
        Type::Struct(members) => members.iter().all(is_legal),
        _ => true,
    }
}

fn legal(ty: &Type) -> Type {
    match ty {
        Type::Scalar(Scalar::Int(width)) => Type::int(register(*width)),
        Type::Struct(members) => Type::Struct(members.iter().map(legal).collect()),
        _ => ty.clone(),
    }
}

/// Gives all but constants the types that they are to have.
fn retype(function: &mut Function) {
    let odd =
        function.value_table().filter(|(_, ty, def)| !is_legal(ty) && !matches!(def, ValueDef::Constant(_)));
    let odd: Vec<(Value, Type)> = odd.map(|(value, ty, _)| (value, legal(ty))).collect();
    odd.into_iter().for_each(|(value, ty)| function.retype(value, ty));
    if let Signature::Function { result: Some(ty) } = &mut function.signature {
        *ty = legal(ty);
    }
}

/// A value that an instruction uses, as it is now: constants are not shared between types.
fn operand(function: &mut Function, value: Value) -> Value {
    let ValueDef::Constant(constant) = function.def(value) else { return value };
    let ty = function.ty(value);
    if is_legal(ty) {
        return value;
    }
    let (constant, ty) = (promoted(constant, ty), legal(ty));
    function.constant(ty, constant)
}

fn promoted(constant: &Constant, ty: &Type) -> Constant {
    match (constant, ty) {
        // Nobody promises that the upper bits of any value are zero.
        (Constant::Undef | Constant::Poison, Type::Scalar(_)) => Constant::Int(0),
        (Constant::Elements(elements), _) => {
            let element = |(ty, constant): &(Type, Constant)| (legal(ty), promoted(constant, ty));
            Constant::Elements(elements.iter().map(element).collect())
        }
        _ => constant.clone(),
    }
}

fn promote(builder: &mut Builder, inst: Inst, before: &Before) -> Result<Outcome, Illegal> {
    let function = &*builder.function;
    let op = function.op(inst);
    let mut odd = function.result(inst).is_some_and(|result| !is_legal(before.ty(function, result)));
    op.visit_operands(|value| odd |= !is_legal(before.ty(function, value)));
    if odd {
        return promote_odd(builder, inst, before);
    }
    match *op {
        Op::Binary { op, lhs, rhs, .. } if *function.ty(lhs) == Type::BOOL => {
            Ok(binary_on_flags(builder, op, lhs, rhs))
        }
        Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. }
            if *function.ty(lhs) == Type::BOOL =>
        {
            Ok(compare_flags(builder, predicate, lhs, rhs))
        }
        Op::Intrinsic { intrinsic, ref arguments, .. } if *function.ty(arguments[0]) == Type::BOOL => {
            let arguments = arguments.clone();
            Ok(intrinsic_on_flags(builder, intrinsic, &arguments))
        }
        _ => Ok(Outcome::Keep),
    }
}

fn binary_on_flags(builder: &mut Builder, op: BinaryOp, lhs: Value, rhs: Value) -> Outcome {
    let op = match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => return Outcome::Keep,
        BinaryOp::Add | BinaryOp::Sub => return Outcome::Is(builder.binary(BinaryOp::Xor, 0, lhs, rhs)),
        BinaryOp::Mul => return Outcome::Is(builder.binary(BinaryOp::And, 0, lhs, rhs)),
        op => op,
    };
    let (left, right) = signs(op);
    let (x, y) = (flag_as_byte(builder, lhs, left), flag_as_byte(builder, rhs, right));
    let byte = builder.binary(op, 0, x, y);
    Outcome::Is(builder.cast(CastOp::Trunc, Type::BOOL, byte))
}

fn compare_flags(builder: &mut Builder, predicate: IntPredicate, lhs: Value, rhs: Value) -> Outcome {
    if matches!(predicate, IntPredicate::Eq | IntPredicate::Ne) {
        return Outcome::Keep;
    }
    let [x, y] = [lhs, rhs].map(|flag| flag_as_byte(builder, flag, is_signed(predicate)));
    Outcome::Is(builder.compare(predicate, x, y))
}

fn intrinsic_on_flags(builder: &mut Builder, intrinsic: Intrinsic, arguments: &[Value]) -> Outcome {
    let Some(signed) = compares(intrinsic) else { return Outcome::Keep };
    let bytes: Vec<Value> = arguments.iter().map(|&flag| flag_as_byte(builder, flag, signed)).collect();
    let byte = builder.intrinsic(intrinsic, &bytes);
    Outcome::Is(builder.cast(CastOp::Trunc, Type::BOOL, byte))
}

fn flag_as_byte(builder: &mut Builder, flag: Value, signed: bool) -> Value {
    builder.cast(if signed { CastOp::SExt } else { CastOp::ZExt }, Type::int(8), flag)
}

/// Whether an operation looks at the sign of the left and of the right operand.
fn signs(op: BinaryOp) -> (bool, bool) {
    match op {
        BinaryOp::SDiv | BinaryOp::SRem => (true, true),
        BinaryOp::AShr => (true, false),
        _ => (false, false),
    }
}

fn is_signed(predicate: IntPredicate) -> bool {
    use IntPredicate::*;
    matches!(predicate, Sgt | Sge | Slt | Sle)
}

/// Whether an intrinsic that yields one of its operands looks at their signs; None for others.
fn compares(intrinsic: Intrinsic) -> Option<bool> {
    match intrinsic {
        Intrinsic::SignedMax | Intrinsic::SignedMin => Some(true),
        Intrinsic::UnsignedMax | Intrinsic::UnsignedMin => Some(false),
        _ => None,
    }
}

/// An instruction that takes or yields an integer of an odd width.
fn promote_odd(builder: &mut Builder, inst: Inst, before: &Before) -> Result<Outcome, Illegal> {
    let original = builder.function.op(inst).clone();
    let mut op = original.clone();
    op.operands_mut().into_iter().for_each(|value| *value = operand(builder.function, *value));
    let width = |builder: &Builder, value: Value| before.width(builder.function, value);
    let result = builder.function.result(inst).map_or(0, |result| width(builder, result));
    // Of the first operand.
    let given = original.operands().first().map_or(0, |&value| width(builder, value));
    Ok(match op {
        Op::Binary { op, flags, lhs, rhs } => Outcome::Is(binary(builder, (op, flags), lhs, rhs, result)),
        Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. } => {
            let [lhs, rhs] = match is_signed(predicate) {
                true => [lhs, rhs].map(|value| sign_extended(builder, value, given)),
                false => [lhs, rhs],
            };
            Outcome::Is(builder.compare(predicate, lhs, rhs))
        }
        // Zeros above the width are right for `inttoptr`.
        Op::Cast { op, value, .. } if op != CastOp::IntToPtr => cast(builder, op, value, (given, result))?,
        Op::Unary { op: UnaryOp::Freeze, value, .. } if result > 0 => {
            let frozen = builder.freeze(value);
            Outcome::Is(cut(builder, frozen, result))
        }
        Op::Intrinsic { intrinsic, arguments, .. } if result > 0 => match compares(intrinsic) {
            Some(true) => {
                let extended: Vec<Value> =
                    arguments.iter().map(|&value| sign_extended(builder, value, result)).collect();
                let chosen = builder.intrinsic(intrinsic, &extended);
                Outcome::Is(cut(builder, chosen, result))
            }
            Some(false) => Outcome::Is(builder.intrinsic(intrinsic, &arguments)),
            None => return Err(Illegal::new(format!("`{}` of i{result}", intrinsic.name()))),
        },
        Op::Load { pointer, align, volatile, .. } if result > 0 => {
            Outcome::Is(memory::load(builder, (pointer, align, volatile), result))
        }
        Op::Store { pointer, value, align, volatile, .. } => {
            let Op::Store { value: stored, .. } = original else { return Ok(Outcome::Keep) };
            memory::store(builder, (pointer, align, volatile), value, width(builder, stored));
            Outcome::Done
        }
        Op::AtomicRmw { .. } | Op::CompareExchange { .. } | Op::NontemporalStore { .. } => {
            return Err(Illegal::new(format!("an access in `{}`", builder.function.inst_text(inst))));
        }
        op => {
            *builder.function.op_mut(inst) = op;
            Outcome::Keep
        }
    })
}

fn binary(
    builder: &mut Builder,
    (op, flags): (BinaryOp, Flags),
    lhs: Value,
    rhs: Value,
    width: u32,
) -> Value {
    let (left, right) = signs(op);
    let lhs = if left { sign_extended(builder, lhs, width) } else { lhs };
    let rhs = if right { sign_extended(builder, rhs, width) } else { rhs };
    // What it says of overflow is of another width.
    let value = builder.binary(op, flags.0 & (Flags::EXACT | Flags::DISJOINT), lhs, rhs);
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::LShr | BinaryOp::UDiv | BinaryOp::URem => {
            value
        }
        _ => cut(builder, value, width),
    }
}

fn cast(builder: &mut Builder, op: CastOp, value: Value, (from, to): (u32, u32)) -> Result<Outcome, Illegal> {
    let (held, wanted) = (builder.ty(value), Type::int(register(to)));
    Ok(Outcome::Is(match op {
        CastOp::Trunc => {
            let part = if held == wanted { value } else { builder.cast(CastOp::Trunc, wanted, value) };
            cut(builder, part, to)
        }
        CastOp::ZExt if held == wanted => value,
        CastOp::ZExt => builder.cast(CastOp::ZExt, wanted, value),
        CastOp::SExt => {
            let whole = if is_odd(from) { sign_extended(builder, value, from) } else { value };
            let whole = if held == wanted { whole } else { builder.cast(CastOp::SExt, wanted, whole) };
            cut(builder, whole, to)
        }
        CastOp::PtrToInt => {
            let address = builder.cast(CastOp::PtrToInt, Type::I64, value);
            return match to {
                64.. => Ok(Outcome::Is(builder.cast(CastOp::ZExt, wanted, address))),
                _ => cast(builder, CastOp::Trunc, address, (64, to)),
            };
        }
        // To itself.
        CastOp::BitCast => value,
        _ => return Err(Illegal::new(format!("`{}` of an odd integer", op.name()))),
    }))
}

/// The value with zeros above its width.
fn cut(builder: &mut Builder, value: Value, width: u32) -> Value {
    if !is_odd(width) {
        return value;
    }
    let mask = builder.function.int(builder.ty(value), u128::MAX >> (128 - width));
    builder.binary(BinaryOp::And, 0, value, mask)
}

/// The value with its sign's bit above its width.
fn sign_extended(builder: &mut Builder, value: Value, width: u32) -> Value {
    let places = u128::from(register(width) - width);
    let places = builder.function.int(builder.ty(value), places);
    let up = builder.binary(BinaryOp::Shl, 0, value, places);
    builder.binary(BinaryOp::AShr, 0, up, places)
}
