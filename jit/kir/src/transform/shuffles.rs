//! Transform: shuffles of shuffles as one, where all lanes come from one vector of the same length, or are constants. What takes vectors of
//! neighbouring work-items apart, and what puts them together again, often is nothing between them, or an order within each. (LLVM
//! makes one of some, and of others a sequence of single lanes.)

use crate::builder::replace_results;
use crate::{Constant, Function, Op, Type, Value, ValueDef};

/// Shuffles that are looked through.
const MOST: u32 = 8;

/// Replaces those that shuffle shuffles.
pub fn compose_shuffles(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let Op::Shuffle { first, second, .. } = builder.function.op(inst) else { return None };
        let is_shuffle =
            |&value: &Value| matches!(builder.function.defining_op(value), Some(Op::Shuffle { .. }));
        if !is_shuffle(first) && !is_shuffle(second) {
            return None;
        }
        let result = builder.function.result(inst)?;
        let ty = builder.ty(result);
        let Composed { source, mask, constants } = composed(builder.function, result, &ty)?;
        if (0..).zip(&mask).all(|(lane, &from)| from == lane) {
            return Some(source);
        }
        let second = builder.constant(ty.clone(), constants.map_or(Constant::Poison, Constant::Elements));
        Some(builder.push(ty, Op::Shuffle { first: source, second, mask: mask.into() }))
    });
}

/// A shuffle of one vector and, behind it, constants.
struct Composed {
    source: Value,
    mask: Vec<i32>,
    constants: Option<Vec<(Type, Constant)>>,
}

/// Where a lane comes from.
enum Origin {
    Lane(Value, i32),
    Constant(Constant),
    Anywhere,
}

/// What a vector is, if it is of lanes of one vector of its type, and constants.
fn composed(function: &Function, result: Value, ty: &Type) -> Option<Composed> {
    let lanes = ty.lanes() as i32;
    let element = Type::Scalar(ty.scalar()?);
    let mut source = None;
    let mut constants = vec![(element, Constant::Poison); lanes as usize];
    let mut has_constants = false;
    let mut mask = Vec::new();
    for lane in 0..lanes {
        mask.push(match origin(function, result, lane)? {
            Origin::Lane(value, from) => {
                if *source.get_or_insert(value) != value || function.ty(value) != ty {
                    return None;
                }
                from
            }
            Origin::Constant(constant) => {
                constants[lane as usize].1 = constant;
                has_constants = true;
                lanes + lane
            }
            Origin::Anywhere => -1,
        });
    }
    Some(Composed { source: source?, mask, constants: has_constants.then_some(constants) })
}

fn origin(function: &Function, vector: Value, lane: i32) -> Option<Origin> {
    let (mut vector, mut lane) = (vector, lane);
    for _ in 0..MOST {
        if let ValueDef::Constant(constant) = function.def(vector) {
            return Some(match constant {
                Constant::Elements(elements) => match &elements.get(lane as usize)?.1 {
                    Constant::Poison => Origin::Anywhere,
                    element => Origin::Constant(element.clone()),
                },
                Constant::Poison => Origin::Anywhere,
                Constant::Zero => Origin::Constant(Constant::Zero),
                _ => return None,
            });
        }
        let Some(Op::Shuffle { first, second, mask }) = function.defining_op(vector) else {
            return Some(Origin::Lane(vector, lane));
        };
        let from = *mask.get(lane as usize)?;
        if from < 0 {
            return Some(Origin::Anywhere);
        }
        let length = function.ty(*first).lanes() as i32;
        (vector, lane) = if from < length { (*first, from) } else { (*second, from - length) };
    }
    None
}
