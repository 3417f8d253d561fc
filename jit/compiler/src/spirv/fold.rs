//! OpSpecConstantOp: operations on constants, which the reader computes where they are of numbers. Addresses LLVM computes.

use super::constants::{Constant, Constants};
use super::stream::{self, Instruction};
use super::types::{Type, Types};
use super::{Id, Result, memory, refuse, spirv};
use spirv::Op;

/// The low bits.
pub fn truncated(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// With the sign of so many bits.
pub fn signed(value: u64, bits: u32) -> i64 {
    let unused = 64_u32.saturating_sub(bits).min(63);
    (value << unused) as i64 >> unused
}

/// The value of an instruction.
pub fn specialized(constants: &Constants, types: &Types, instruction: &Instruction) -> Result<Constant> {
    let ([number], operands) = instruction.words()?;
    let Some(op) = stream::opcode(number) else {
        return refuse(format!("OpSpecConstantOp has the opcode {number}, which isn't known"));
    };
    let folding = Folding { constants, types, ty: instruction.ty };
    match op {
        Op::CompositeExtract => {
            let (ty, constant) = constants.expect(operand(operands, 0)?)?;
            folding.extract(ty, constant.clone(), &operands[1..])
        }
        Op::CompositeInsert => {
            let (part, (ty, whole)) =
                (constants.expect(operand(operands, 0)?)?, constants.expect(operand(operands, 1)?)?);
            folding.insert((part.0, part.1.clone()), ty, whole.clone(), &operands[2..])
        }
        Op::VectorShuffle => {
            let mut lanes = folding.lanes(operand(operands, 0)?)?;
            lanes.extend(folding.lanes(operand(operands, 1)?)?);
            let (element, _) = types.lanes(instruction.ty)?;
            let chosen = operands[2..].iter().map(|&index| match lanes.get(index as usize) {
                Some(lane) => Ok((element, lane.clone())),
                None if index == u32::MAX => Ok((element, Constant::Undefined)),
                None => refuse("OpVectorShuffle chooses a component that isn't there"),
            });
            constants.composite(types, instruction.ty, chosen.collect::<Result<_>>()?)
        }
        Op::AccessChain | Op::InBoundsAccessChain | Op::PtrAccessChain | Op::InBoundsPtrAccessChain => {
            let text = memory::constant_address(constants, types, op, operands)?;
            Ok(Constant::Text(text.into()))
        }
        Op::Bitcast | Op::ConvertPtrToU | Op::ConvertUToPtr | Op::PtrCastToGeneric | Op::GenericCastToPtr
            if folding.is_pointer(instruction.ty)
                || folding.is_pointer(constants.expect(operand(operands, 0)?)?.0) =>
        {
            folding.cast_pointer(operand(operands, 0)?)
        }
        _ => folding.by_lane(op, operands),
    }
}

fn operand(operands: &[u32], index: usize) -> Result<u32> {
    match operands.get(index) {
        Some(&word) => Ok(word),
        None => refuse("OpSpecConstantOp has too few operands"),
    }
}

struct Folding<'a> {
    constants: &'a Constants,
    types: &'a Types,
    ty: Id,
}

impl Folding<'_> {
    fn is_pointer(&self, ty: Id) -> bool {
        matches!(self.types.get(ty), Ok(Type::Pointer(..)))
    }

    /// A part of a composite.
    fn extract(&self, mut ty: Id, mut constant: Constant, indices: &[u32]) -> Result<Constant> {
        for &index in indices {
            ty = self.types.member(ty, u64::from(index))?;
            constant = match constant {
                Constant::Composite(parts) => match parts.get(index as usize) {
                    Some((_, part)) => part.clone(),
                    None => return refuse("OpCompositeExtract chooses a part that isn't there"),
                },
                other => other,
            };
        }
        Ok(constant)
    }

    /// A composite with another part. Structures are as deep as indices are many, which a module's words are.
    fn insert(&self, part: (Id, Constant), ty: Id, whole: Constant, indices: &[u32]) -> Result<Constant> {
        let Some((&index, rest)) = indices.split_first() else { return Ok(part.1) };
        if rest.len() > 64 {
            return refuse("OpCompositeInsert has too many indices");
        }
        let member = self.types.member(ty, u64::from(index))?;
        let mut parts = self.parts(ty, whole)?;
        let Some(place) = parts.get_mut(index as usize) else {
            return refuse("OpCompositeInsert chooses a part that isn't there");
        };
        place.1 = self.insert(part, member, place.1.clone(), rest)?;
        self.constants.composite(self.types, ty, parts)
    }

    /// All parts of a composite, also of one that is null.
    fn parts(&self, ty: Id, whole: Constant) -> Result<Vec<(Id, Constant)>> {
        /// Parts of a null that are written out.
        const MOST: u64 = 1 << 16;
        if let Constant::Composite(parts) = &whole {
            return Ok(parts.to_vec());
        }
        let count = match self.types.get(ty)? {
            Type::Vector(_, count) => u64::from(*count),
            Type::Array(_, count) => *count,
            Type::Struct(members) => members.len() as u64,
            _ => return refuse("a composite is wanted where there is none"),
        };
        if count > MOST {
            return refuse("a composite constant is too large to be changed");
        }
        (0..count).map(|index| Ok((self.types.member(ty, index)?, whole.clone()))).collect()
    }

    /// The components of a vector, or the constant itself.
    fn lanes(&self, id: Id) -> Result<Vec<Constant>> {
        let (ty, constant) = self.constants.expect(id)?;
        match self.types.get(ty)? {
            Type::Vector(..) => {
                Ok(self.parts(ty, constant.clone())?.into_iter().map(|(_, part)| part).collect())
            }
            _ => Ok(vec![constant.clone()]),
        }
    }

    fn cast_pointer(&self, from: Id) -> Result<Constant> {
        let (from_ty, _) = self.constants.expect(from)?;
        let text = self.constants.text(from).unwrap_or_default();
        let (from_text, to_text) = (self.types.text(from_ty)?, self.types.text(self.ty)?);
        if from_text == to_text {
            return Ok(Constant::Text(text));
        }
        let cast = match (self.types.get(from_ty)?, self.types.get(self.ty)?) {
            (Type::Pointer(..), Type::Pointer(..)) => "addrspacecast",
            (Type::Pointer(..), _) => "ptrtoint",
            _ => "inttoptr",
        };
        Ok(Constant::Text(format!("{cast} ({from_text} {text} to {to_text})").into()))
    }

    /// An operation on numbers, lane by lane.
    fn by_lane(&self, op: Op, operands: &[u32]) -> Result<Constant> {
        let (element, count) = self.types.lanes(self.ty)?;
        let mut columns = Vec::new();
        for &id in operands {
            let (ty, _) = self.constants.expect(id)?;
            columns.push((self.types.scalar(ty)?.clone(), self.lanes(id)?));
        }
        let to = self.types.get(element)?;
        let mut lanes = Vec::new();
        for lane in 0..count as usize {
            let row: Option<Vec<(&Type, &Constant)>> = columns
                .iter()
                .map(|(ty, lanes)| Some((ty, if lanes.len() == 1 { &lanes[0] } else { lanes.get(lane)? })))
                .collect();
            let Some(row) = row else { return refuse("OpSpecConstantOp has vectors of several sizes") };
            lanes.push((element, one(op, to, &row)?));
        }
        match self.types.get(self.ty)? {
            Type::Vector(..) => self.constants.composite(self.types, self.ty, lanes),
            _ => lanes.pop().map_or_else(|| refuse("OpSpecConstantOp yields nothing"), |(_, lane)| Ok(lane)),
        }
    }
}

fn bits_of(ty: &Type) -> u32 {
    match ty {
        Type::Bool => 1,
        Type::Int(bits) | Type::Float(bits) => *bits,
        _ => 64,
    }
}

/// An operation on scalars.
fn one(op: Op, to: &Type, row: &[(&Type, &Constant)]) -> Result<Constant> {
    if row.iter().any(|(_, constant)| matches!(constant, Constant::Undefined)) && op != Op::Select {
        return Ok(Constant::Undefined);
    }
    let bits: Option<Vec<u64>> = row
        .iter()
        .map(|(_, constant)| match constant {
            Constant::Bits(bits) => Some(*bits),
            Constant::Null | Constant::Undefined => Some(0),
            _ => None,
        })
        .collect();
    let Some(bits) = bits else {
        return refuse(format!("OpSpecConstantOp {op:?} isn't supported of addresses"));
    };
    let from = row.first().map_or(to, |(ty, _)| *ty);
    let value = match bits[..] {
        [a] => unary(op, from, to, a),
        [a, b] if matches!(from, Type::Float(_)) => float_binary(op, from, [a, b]),
        [a, b] => integer_binary(op, bits_of(from), [a, b]),
        [a, b, c] if op == Op::Select => Some(if a & 1 != 0 { b } else { c }),
        _ => None,
    };
    match value {
        Some(value) => Ok(Constant::Bits(truncated(value, bits_of(to)))),
        None => refuse(format!("OpSpecConstantOp {op:?} isn't supported")),
    }
}

fn unary(op: Op, from: &Type, to: &Type, a: u64) -> Option<u64> {
    let bits = bits_of(from);
    Some(match op {
        Op::SNegate => a.wrapping_neg(),
        Op::Not => !a,
        Op::LogicalNot => a ^ 1,
        Op::UConvert | Op::Bitcast | Op::CopyObject => a,
        Op::SConvert => signed(a, bits) as u64,
        Op::FNegate => a ^ 1 << (bits - 1),
        Op::FConvert => float_bits(to, float_of(from, a)?)?,
        Op::ConvertFToS => float_of(from, a)? as i64 as u64,
        Op::ConvertFToU => float_of(from, a)? as u64,
        Op::ConvertSToF => match to {
            Type::Float(32) => u64::from((signed(a, bits) as f32).to_bits()),
            _ => float_bits(to, signed(a, bits) as f64)?,
        },
        Op::ConvertUToF => match to {
            Type::Float(32) => u64::from((a as f32).to_bits()),
            _ => float_bits(to, a as f64)?,
        },
        _ => return None,
    })
}

fn float_of(ty: &Type, bits: u64) -> Option<f64> {
    match ty {
        Type::Float(32) => Some(f64::from(f32::from_bits(bits as u32))),
        Type::Float(64) => Some(f64::from_bits(bits)),
        _ => None,
    }
}

fn float_bits(ty: &Type, value: f64) -> Option<u64> {
    match ty {
        Type::Float(32) => Some(u64::from((value as f32).to_bits())),
        Type::Float(64) => Some(value.to_bits()),
        _ => None,
    }
}

fn float_binary(op: Op, ty: &Type, [a, b]: [u64; 2]) -> Option<u64> {
    // Of 32 bits in 64: each of these is rounded as if it were computed in 32.
    let (a, b) = (float_of(ty, a)?, float_of(ty, b)?);
    let ordered = !a.is_nan() && !b.is_nan();
    let value = match op {
        Op::FAdd => a + b,
        Op::FSub => a - b,
        Op::FMul => a * b,
        Op::FDiv => a / b,
        Op::FRem => a % b,
        Op::FOrdEqual => return Some(u64::from(a == b)),
        Op::FUnordNotEqual => return Some(u64::from(a != b)),
        Op::FOrdNotEqual => return Some(u64::from(ordered && a != b)),
        Op::FUnordEqual => return Some(u64::from(!ordered || a == b)),
        Op::FOrdLessThan => return Some(u64::from(a < b)),
        Op::FOrdGreaterThan => return Some(u64::from(a > b)),
        Op::FOrdLessThanEqual => return Some(u64::from(a <= b)),
        Op::FOrdGreaterThanEqual => return Some(u64::from(a >= b)),
        Op::FUnordLessThan => return Some(u64::from(!ordered || a < b)),
        Op::FUnordGreaterThan => return Some(u64::from(!ordered || a > b)),
        Op::FUnordLessThanEqual => return Some(u64::from(!ordered || a <= b)),
        Op::FUnordGreaterThanEqual => return Some(u64::from(!ordered || a >= b)),
        _ => return None,
    };
    float_bits(ty, value)
}

fn integer_binary(op: Op, bits: u32, [a, b]: [u64; 2]) -> Option<u64> {
    let (sa, sb) = (signed(a, bits), signed(b, bits));
    // As OpenCL C has it: shifts by the low bits, and no quotient where there is none.
    let amount = (b % u64::from(bits.max(1))) as u32;
    Some(match op {
        Op::IAdd => a.wrapping_add(b),
        Op::ISub => a.wrapping_sub(b),
        Op::IMul => a.wrapping_mul(b),
        Op::UDiv => a.checked_div(b).unwrap_or(0),
        Op::UMod => a.checked_rem(b).unwrap_or(0),
        Op::SDiv => sa.checked_div(sb).unwrap_or(0) as u64,
        Op::SRem => sa.checked_rem(sb).unwrap_or(0) as u64,
        Op::SMod => {
            let rest = sa.checked_rem(sb).unwrap_or(0);
            (if rest != 0 && (rest < 0) != (sb < 0) { rest + sb } else { rest }) as u64
        }
        Op::ShiftLeftLogical => a << amount,
        Op::ShiftRightLogical => a >> amount,
        Op::ShiftRightArithmetic => (sa >> amount) as u64,
        Op::BitwiseAnd | Op::LogicalAnd => a & b,
        Op::BitwiseOr | Op::LogicalOr => a | b,
        Op::BitwiseXor | Op::LogicalNotEqual => a ^ b,
        Op::LogicalEqual => a ^ b ^ 1,
        Op::IEqual => u64::from(a == b),
        Op::INotEqual => u64::from(a != b),
        Op::ULessThan => u64::from(a < b),
        Op::UGreaterThan => u64::from(a > b),
        Op::ULessThanEqual => u64::from(a <= b),
        Op::UGreaterThanEqual => u64::from(a >= b),
        Op::SLessThan => u64::from(sa < sb),
        Op::SGreaterThan => u64::from(sa > sb),
        Op::SLessThanEqual => u64::from(sa <= sb),
        Op::SGreaterThanEqual => u64::from(sa >= sb),
        _ => return None,
    })
}
