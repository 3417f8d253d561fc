//! What a machine does with whole registers, done with vectors of any length and with single numbers.

use crate::builder::Builder;
use crate::{Constant, Op, Scalar, Type, Value};

/// A number, or a vector that has it in each lane.
pub(super) fn number(builder: &mut Builder, ty: &Type, constant: Constant) -> Value {
    let constant = match *ty {
        Type::Vector(scalar, lanes) => {
            Constant::Elements(vec![(Type::Scalar(scalar), constant); lanes as usize])
        }
        _ => constant,
    };
    builder.constant(ty.clone(), constant)
}

/// What `operation` makes of registers of so many lanes, for arguments of one type: as many registers as their lanes fill.
pub(super) fn by_register(
    builder: &mut Builder,
    arguments: &[Value],
    lanes: u32,
    operation: impl Fn(&mut Builder, &[Value]) -> Value,
) -> Value {
    let ty = builder.ty(arguments[0]);
    let scalar = ty.scalar().expect("numbers, or vectors of them");
    let Type::Vector(_, all) = ty else {
        let first = builder.function.int(Type::I32, 0);
        let zeros = builder.constant(Type::Vector(scalar, lanes), Constant::Zero);
        let insert = |&element: &Value| {
            let op = Op::InsertElement { vector: zeros, element, index: first };
            builder.push(Type::Vector(scalar, lanes), op)
        };
        let registers: Vec<Value> = arguments.iter().map(insert).collect();
        let vector = operation(builder, &registers);
        return builder.push(ty, Op::ExtractElement { vector, index: first });
    };
    let parts: Vec<Value> = (0..all.div_ceil(lanes))
        .map(|number| {
            let first = number * lanes;
            let of = |lane: u32| if first + lane < all { (first + lane) as i32 } else { -1 };
            let mask: Vec<i32> = (0..lanes).map(of).collect();
            let parts: Vec<Value> =
                arguments.iter().map(|&argument| cut(builder, scalar, argument, mask.clone())).collect();
            operation(builder, &parts)
        })
        .collect();
    let whole = joined(builder, scalar, lanes, &parts);
    cut(builder, scalar, whole, (0..all as i32).collect())
}

/// Registers one behind the other.
fn joined(builder: &mut Builder, scalar: Scalar, lanes: u32, parts: &[Value]) -> Value {
    let mut whole = parts[0];
    for (number, &part) in (1..).zip(&parts[1..]) {
        let (before, all) = ((number * lanes) as i32, ((number + 1) * lanes) as i32);
        let widened = (0..before).map(|lane| if lane < lanes as i32 { lane } else { -1 }).collect();
        let second = cut(builder, scalar, part, widened);
        let mask: Vec<i32> = (0..all).collect();
        let op = Op::Shuffle { first: whole, second, mask: mask.into() };
        whole = builder.push(Type::Vector(scalar, all as u32), op);
    }
    whole
}

/// The lanes that are asked for; anything for -1.
fn cut(builder: &mut Builder, scalar: Scalar, vector: Value, mask: Vec<i32>) -> Value {
    let any = builder.constant(builder.ty(vector), Constant::Poison);
    let ty = Type::Vector(scalar, mask.len() as u32);
    builder.push(ty, Op::Shuffle { first: vector, second: any, mask: mask.into() })
}
