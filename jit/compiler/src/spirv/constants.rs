//! Constants: values that the reader knows, and LLVM's text for them.

use super::fold;
use super::stream::Instruction;
use super::types::{Type, Types};
use super::{Id, Result, refuse, spirv};
use spirv::Op;
use std::collections::HashMap;
use std::rc::Rc;

/// Characters that all constants together may have: composites of composites would be of any length.
const MAX_TEXT: usize = 64 << 20;

/// A constant's value.
#[derive(Clone, Debug)]
pub enum Constant {
    /// A boolean, an integer or a float, by its bits.
    Bits(u64),
    Null,
    Undefined,
    Composite(Rc<[(Id, Constant)]>),
    /// What LLVM computes: addresses.
    Text(Rc<str>),
}

/// All constants of a module, with their types.
#[derive(Debug, Default)]
pub struct Constants {
    known: HashMap<Id, (Id, Constant, Rc<str>)>,
    written: usize,
}

impl Constants {
    /// A constant and its type.
    pub fn get(&self, id: Id) -> Option<(Id, &Constant)> {
        self.known.get(&id).map(|(ty, constant, _)| (*ty, constant))
    }

    /// A constant that must be there.
    pub fn expect(&self, id: Id) -> Result<(Id, &Constant)> {
        match self.get(id) {
            Some(found) => Ok(found),
            None => refuse(format!("the id {id} is used as a constant and is none, or none yet")),
        }
    }

    /// LLVM's text, without the type.
    pub fn text(&self, id: Id) -> Option<Rc<str>> {
        self.known.get(&id).map(|(.., text)| text.clone())
    }

    /// An integer constant, not signed.
    pub fn unsigned(&self, id: Id) -> Result<u64> {
        match self.expect(id)?.1 {
            Constant::Bits(bits) => Ok(*bits),
            Constant::Null => Ok(0),
            _ => refuse(format!("the constant {id} is no integer")),
        }
    }

    /// Adds the constant of an instruction.
    pub fn define(&mut self, types: &Types, instruction: &Instruction) -> Result<()> {
        let constant = self.read(types, instruction)?;
        self.insert(types, instruction.result, instruction.ty, constant)
    }

    /// Adds a value.
    pub fn insert(&mut self, types: &Types, id: Id, ty: Id, constant: Constant) -> Result<()> {
        let text = self.write(types, ty, &constant)?;
        self.written += text.len();
        if self.written > MAX_TEXT {
            return refuse("its constants are too large");
        }
        self.known.insert(id, (ty, constant, text.into()));
        Ok(())
    }

    fn read(&self, types: &Types, instruction: &Instruction) -> Result<Constant> {
        let ty = types.get(instruction.ty)?;
        Ok(match instruction.op {
            Op::ConstantTrue | Op::SpecConstantTrue => Constant::Bits(1),
            Op::ConstantFalse | Op::SpecConstantFalse => Constant::Bits(0),
            Op::Constant | Op::SpecConstant => {
                let (Type::Int(bits) | Type::Float(bits)) = *ty else {
                    return refuse("OpConstant is of a type that is no number");
                };
                let low = u64::from(instruction.word(0)?);
                let high = if bits > 32 { u64::from(instruction.word(1)?) } else { 0 };
                Constant::Bits(fold::truncated(low | high << 32, bits))
            }
            Op::ConstantNull => Constant::Null,
            Op::Undef => Constant::Undefined,
            Op::ConstantComposite | Op::SpecConstantComposite => {
                let parts = instruction.operands.iter().map(|&id| {
                    let (ty, constant) = self.expect(id)?;
                    Ok((ty, constant.clone()))
                });
                self.composite(types, instruction.ty, parts.collect::<Result<_>>()?)?
            }
            Op::ConstantSampler => {
                let ([addressing, normalized, filter], _) = instruction.words()?;
                Constant::Bits(sampler(addressing, normalized, filter)?)
            }
            Op::ConstantPipeStorage => return refuse("OpConstantPipeStorage isn't supported"),
            Op::SpecConstantOp => fold::specialized(self, types, instruction)?,
            op => return refuse(format!("Op{op:?} isn't supported")),
        })
    }

    /// A composite of these parts, if they are of the types that it has.
    pub fn composite(&self, types: &Types, ty: Id, parts: Vec<(Id, Constant)>) -> Result<Constant> {
        let count = match types.get(ty)? {
            Type::Vector(_, count) => u64::from(*count),
            Type::Array(_, count) => *count,
            Type::Struct(members) => members.len() as u64,
            _ => return refuse("a composite constant is of a type that is no composite"),
        };
        if count != parts.len() as u64 {
            return refuse(format!("a composite constant has {} parts instead of {count}", parts.len()));
        }
        for (index, (part, _)) in parts.iter().enumerate() {
            if types.text(types.member(ty, index as u64)?)? != types.text(*part)? {
                return refuse("a composite constant has a part of another type");
            }
        }
        Ok(Constant::Composite(parts.into()))
    }

    /// LLVM's text. Composites are nested no deeper than types are.
    fn write(&self, types: &Types, ty: Id, constant: &Constant) -> Result<String> {
        let ty_of = types.get(ty)?;
        Ok(match constant {
            Constant::Undefined => "undef".into(),
            Constant::Text(text) => text.to_string(),
            Constant::Null => match ty_of {
                Type::Bool => "false".into(),
                Type::Int(_) | Type::Sampler => "0".into(),
                Type::Float(_) => float(ty_of, 0),
                Type::Vector(..) | Type::Array(..) | Type::Struct(_) | Type::SampledImage(_) => {
                    "zeroinitializer".into()
                }
                Type::Void | Type::Function(..) | Type::Opaque => {
                    return refuse("there is no null of that type");
                }
                _ => "null".into(),
            },
            Constant::Bits(bits) => match ty_of {
                Type::Bool => (*bits != 0).to_string(),
                Type::Float(_) => float(ty_of, *bits),
                Type::Int(_) | Type::Sampler => bits.to_string(),
                _ => return refuse("a constant is of a type that is no number"),
            },
            Constant::Composite(parts) => {
                let mut list = Vec::with_capacity(parts.len());
                let mut length = 0;
                for (ty, part) in parts.iter() {
                    let text = format!("{} {}", types.text(*ty)?, self.write(types, *ty, part)?);
                    length += text.len();
                    if length > MAX_TEXT {
                        return refuse("its constants are too large");
                    }
                    list.push(text);
                }
                let list = list.join(", ");
                match ty_of {
                    Type::Vector(..) => format!("<{list}>"),
                    Type::Array(..) => format!("[{list}]"),
                    // As its type is, packed or not.
                    _ if types.is_packed(ty) => format!("<{{ {list} }}>"),
                    _ => format!("{{ {list} }}"),
                }
            }
        })
    }
}

/// The bits of a sampler as OpenCL C has them.
fn sampler(addressing: u32, normalized: u32, filter: u32) -> Result<u64> {
    // None, clamp to edge, clamp, repeat, mirrored repeat.
    const ADDRESSING: [u64; 5] = [0, 2, 4, 6, 8];
    let Some(&addressing) = ADDRESSING.get(addressing as usize) else {
        return refuse(format!("a sampler has the addressing mode {addressing}, which isn't known"));
    };
    let filter = match filter {
        0 => 0x10,
        1 => 0x20,
        _ => return refuse(format!("a sampler has the filter mode {filter}, which isn't known")),
    };
    Ok(addressing | u64::from(normalized & 1) | filter)
}

/// A float as LLVM writes it: that of 32 bits as one of 64, whose bits say the same.
fn float(ty: &Type, bits: u64) -> String {
    match ty {
        Type::Float(16) => format!("0xH{bits:04X}"),
        Type::Float(32) => {
            let bits = bits as u32;
            let value = f32::from_bits(bits);
            let wide = match value.is_nan() {
                true => u64::from(bits >> 31) << 63 | 0x7FF << 52 | u64::from(bits & 0x7F_FFFF) << 29,
                false => f64::from(value).to_bits(),
            };
            format!("0x{wide:016X}")
        }
        _ => format!("0x{bits:016X}"),
    }
}
