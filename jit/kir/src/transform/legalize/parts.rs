//! Legalization: of which scalars a type consists, and where they lie.

use super::Illegal;
use crate::{Constant, Scalar, Type};
use std::ops::Range;

/// More scalars than that stay together, and with LLVM.
const MAX_PARTS: usize = 1024;

/// The scalars in order.
pub(super) fn leaves(ty: &Type) -> Result<Vec<Scalar>, Illegal> {
    let mut list = Vec::new();
    collect(ty, &mut list)?;
    Ok(list)
}

fn collect(ty: &Type, list: &mut Vec<Scalar>) -> Result<(), Illegal> {
    match ty {
        Type::Scalar(scalar) => list.push(*scalar),
        Type::Vector(scalar, lanes) => {
            list.extend(std::iter::repeat_n(*scalar, (*lanes as usize).min(MAX_PARTS + 1)));
        }
        Type::Struct(members) => members.iter().try_for_each(|member| collect(member, list))?,
        Type::Array(element, count) => {
            for _ in 0..*count {
                collect(element, list)?;
            }
        }
    }
    if list.len() > MAX_PARTS { Err(Illegal::new(format!("a value of type {ty}"))) } else { Ok(()) }
}

/// The scalars of a constant, with their types.
pub(super) fn constants(ty: &Type, constant: &Constant) -> Result<Vec<(Type, Constant)>, Illegal> {
    if let Constant::Elements(elements) = constant {
        let parts = elements.iter().map(|(ty, constant)| constants(ty, constant));
        return Ok(parts.collect::<Result<Vec<_>, _>>()?.concat());
    }
    let scalar = |scalar: Scalar| {
        let constant = match (constant, scalar) {
            (Constant::Zero, Scalar::Int(_)) => Constant::Int(0),
            (Constant::Zero, Scalar::Half | Scalar::Float | Scalar::Double) => Constant::Float(0),
            (other, _) => other.clone(),
        };
        (Type::Scalar(scalar), constant)
    };
    Ok(leaves(ty)?.into_iter().map(scalar).collect())
}

/// The scalars of a member.
pub(super) fn member(aggregate: &Type, indices: &[u32]) -> Result<Range<usize>, Illegal> {
    let wrong = || Illegal::new(format!("a member of {aggregate}"));
    let (mut ty, mut start) = (aggregate, 0);
    for &index in indices {
        let index = index as usize;
        ty = match ty {
            Type::Struct(members) => {
                for member in members.get(..index).ok_or_else(wrong)? {
                    start += leaves(member)?.len();
                }
                members.get(index).ok_or_else(wrong)?
            }
            Type::Array(element, _) => {
                start += index * leaves(element)?.len();
                element
            }
            _ => return Err(wrong()),
        };
    }
    Ok(start..start + leaves(ty)?.len())
}

/// Scalars and the bytes at which they lie; `None` if lanes share bytes.
pub(super) fn places(ty: &Type) -> Result<Option<Vec<(Scalar, u64)>>, Illegal> {
    leaves(ty)?; // There are few enough.
    let mut list = Vec::new();
    Ok(place(ty, 0, &mut list).then_some(list))
}

fn place(ty: &Type, at: u64, list: &mut Vec<(Scalar, u64)>) -> bool {
    match ty {
        Type::Scalar(scalar) => {
            list.push((*scalar, at));
            true
        }
        Type::Vector(scalar, lanes) => {
            let bytes = scalar.bits() / 8;
            list.extend((0..u64::from(*lanes)).map(|lane| (*scalar, at + lane * bytes)));
            // Lanes lie bit behind bit.
            scalar.bits() % 8 == 0
        }
        Type::Struct(members) => {
            let mut next = at;
            members.iter().all(|member| {
                let start = at + (next - at).next_multiple_of(member.align());
                next = start + member.size();
                place(member, start, list)
            })
        }
        Type::Array(element, count) => (0..*count).all(|n| place(element, at + n * element.size(), list)),
    }
}

/// Bits and number of a vector's lanes that share bytes, if an integer holds them.
pub(super) fn packed(ty: &Type) -> Result<(u32, u32), Illegal> {
    match ty {
        Type::Vector(scalar, lanes) if scalar.bits() * u64::from(*lanes) <= 128 => {
            Ok((scalar.bits() as u32, *lanes))
        }
        _ => Err(Illegal::new(format!("an access to {ty}"))),
    }
}
