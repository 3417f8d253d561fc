//! Types: what they are, LLVM's text for them, and how the names of builtins spell them.

use super::constants::Constants;
use super::module::Module;
use super::stream::Instruction;
use super::{Id, Result, refuse, spirv};
use crate::builtin::spirv::{Mangled, SAMPLED_IMAGE};
use spirv::{Decoration, Op, StorageClass};
use std::collections::{HashMap, HashSet};

/// Characters of a type's text: arrays of arrays of structures would be of any length.
const MAX_TEXT: usize = 4096;

/// Arrays and structures in others: what walks through constants goes as deep.
const MAX_DEPTH: u32 = 64;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Void,
    Bool,
    Int(u32),
    Float(u32),
    Vector(Id, u32),
    Array(Id, u64),
    Struct(Vec<Id>),
    /// A structure of which nothing is known.
    Opaque,
    /// An address space, and what it leads to, where that is said.
    Pointer(u32, Option<Id>),
    Function(Id, Vec<Id>),
    /// What the mangled name has behind `__spirv_Image__`, and the access: 0 to read, 1 to write, 2 both.
    Image(ImageType),
    /// Of this image.
    SampledImage(Id),
    Sampler,
    Event,
    DeviceEvent,
    ReserveId,
    Queue,
    Pipe,
    PipeStorage,
}

/// An image's type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageType {
    pub dimension: u32,
    pub depth: u32,
    pub arrayed: u32,
    pub multisampled: u32,
    pub sampled: u32,
    pub format: u32,
    pub access: u32,
}

/// All types of a module.
#[derive(Debug, Default)]
pub struct Types {
    /// With LLVM's text, and how deep parts are within it.
    known: HashMap<Id, (Type, String, u32)>,
    packed: HashSet<Id>,
    /// LLVM's definitions of structures.
    pub definitions: String,
}

/// The address space of a storage class. Built-in variables are copied to private memory.
pub fn address_space(class: u32) -> Result<u32> {
    match StorageClass::from_u32(class) {
        Some(StorageClass::Function | StorageClass::Private | StorageClass::Input) => Ok(0),
        Some(StorageClass::CrossWorkgroup) => Ok(1),
        Some(StorageClass::UniformConstant) => Ok(2),
        Some(StorageClass::Workgroup) => Ok(3),
        Some(StorageClass::Generic) => Ok(4),
        Some(other) => refuse(format!("the storage class {other:?} isn't supported")),
        None => refuse(format!("the storage class {class} isn't known")),
    }
}

/// A pointer's text.
pub fn pointer_text(space: u32) -> String {
    if space == 0 { "ptr".into() } else { format!("ptr addrspace({space})") }
}

impl Types {
    pub fn get(&self, id: Id) -> Result<&Type> {
        match self.known.get(&id) {
            Some((ty, ..)) => Ok(ty),
            None => refuse(format!("the id {id} is used as a type and is none, or none yet")),
        }
    }

    /// LLVM's text for a type.
    pub fn text(&self, id: Id) -> Result<&str> {
        self.get(id)?;
        Ok(self.known.get(&id).map_or("", |(_, text, _)| text))
    }

    /// Whether a structure has no padding.
    pub fn is_packed(&self, id: Id) -> bool {
        self.packed.contains(&id)
    }

    /// The element and the number of them: of a vector, or 1 of what is none.
    pub fn lanes(&self, id: Id) -> Result<(Id, u32)> {
        match *self.get(id)? {
            Type::Vector(element, count) => Ok((element, count)),
            _ => Ok((id, 1)),
        }
    }

    /// The type of a vector's lanes, or the type itself.
    pub fn scalar(&self, id: Id) -> Result<&Type> {
        self.get(self.lanes(id)?.0)
    }

    /// Whether a type may lie in memory and be passed.
    pub fn is_value(&self, id: Id) -> Result<bool> {
        Ok(!matches!(self.get(id)?, Type::Void | Type::Function(..) | Type::Opaque))
    }

    /// What a pointer leads to. Refuses what is no such pointer.
    pub fn pointee(&self, id: Id) -> Result<Id> {
        match *self.get(id)? {
            Type::Pointer(_, Some(pointee)) => Ok(pointee),
            _ => refuse("a pointer to a type is wanted where there is none"),
        }
    }

    /// The address space of a pointer.
    pub fn space(&self, id: Id) -> Result<u32> {
        match *self.get(id)? {
            Type::Pointer(space, _) => Ok(space),
            _ => refuse("a pointer is wanted where there is none"),
        }
    }

    /// The members that an index may choose of: a structure's member of that number, any element of an array or vector.
    pub fn member(&self, id: Id, index: u64) -> Result<Id> {
        let chosen = match self.get(id)? {
            Type::Struct(members) => {
                usize::try_from(index).ok().and_then(|index| members.get(index)).copied()
            }
            Type::Array(element, count) => (index < *count).then_some(*element),
            Type::Vector(element, count) => (index < u64::from(*count)).then_some(*element),
            _ => None,
        };
        chosen.map_or_else(|| refuse(format!("there is no member {index} of a type")), Ok)
    }

    /// The type as names of builtins spell it.
    pub fn mangled(&self, id: Id) -> Result<Mangled> {
        Ok(match self.get(id)? {
            Type::Void | Type::Function(..) | Type::Opaque => Mangled::Void,
            Type::Bool => Mangled::Number('b', 1, 1),
            Type::Int(bits) => Mangled::Number('i', *bits, 1),
            Type::Float(bits) => Mangled::Number('f', *bits, 1),
            Type::Vector(element, count) => match self.mangled(*element)? {
                Mangled::Number(kind, bits, _) => Mangled::Number(kind, bits, *count),
                other => other,
            },
            // What it leads to matters where it is a number, an event or the like.
            Type::Pointer(space, pointee) => {
                let pointee = pointee.map(|pointee| self.get(pointee).map(|ty| (pointee, ty))).transpose();
                let inner = match pointee {
                    Ok(Some((id, Type::Int(_) | Type::Float(_) | Type::Vector(..) | Type::Event))) => {
                        self.mangled(id)?
                    }
                    _ => Mangled::Number('i', 8, 1),
                };
                Mangled::Pointer(*space, Box::new(inner))
            }
            Type::Array(..) | Type::Struct(_) => Mangled::Number('i', 8, 1),
            Type::Image(image) => Mangled::Named(format!("__spirv_Image__{}", image.postfix())),
            Type::SampledImage(image) => match self.get(*image)? {
                Type::Image(image) => Mangled::Named(format!("__spirv_SampledImage__{}", image.postfix())),
                _ => return refuse("OpTypeSampledImage is of no image"),
            },
            Type::Sampler => Mangled::Named("__spirv_Sampler".into()),
            Type::Event => Mangled::Named("__spirv_Event".into()),
            Type::DeviceEvent => Mangled::Named("__spirv_DeviceEvent".into()),
            Type::ReserveId => Mangled::Named("__spirv_ReserveId".into()),
            Type::Queue => Mangled::Named("__spirv_Queue".into()),
            Type::Pipe => Mangled::Named("__spirv_Pipe".into()),
            Type::PipeStorage => Mangled::Named("__spirv_PipeStorage".into()),
        })
    }

    /// Adds a pointer that is defined later: structures may have it before that.
    pub fn declare(&mut self, instruction: &Instruction) -> Result<()> {
        let ([id, class], _) = instruction.words()?;
        let space = address_space(class)?;
        self.known.entry(id).or_insert((Type::Pointer(space, None), pointer_text(space), 0));
        Ok(())
    }

    /// Adds the type that an instruction defines.
    pub fn define(
        &mut self,
        module: &Module,
        constants: &Constants,
        instruction: &Instruction,
    ) -> Result<()> {
        let ty = self.read(constants, instruction)?;
        let text = self.write(module, instruction.result, &ty)?;
        if self.known.get(&instruction.result).is_some_and(|(_, declared, _)| *declared != text) {
            return refuse("a forward pointer is defined as another type");
        }
        let depth = self.depth(&ty);
        if text.len() > MAX_TEXT || depth > MAX_DEPTH {
            return refuse("a type is nested too deeply");
        }
        self.known.insert(instruction.result, (ty, text, depth));
        Ok(())
    }

    /// One more than that of the deepest part.
    fn depth(&self, ty: &Type) -> u32 {
        let of = |id: &Id| self.known.get(id).map_or(0, |(.., depth)| *depth);
        match ty {
            Type::Array(element, _) => 1 + of(element),
            Type::Struct(members) => 1 + members.iter().map(of).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn read(&self, constants: &Constants, instruction: &Instruction) -> Result<Type> {
        let word = |index| instruction.word(index);
        Ok(match instruction.op {
            Op::TypeVoid => Type::Void,
            Op::TypeBool => Type::Bool,
            Op::TypeInt => match word(0)? {
                bits @ (8 | 16 | 32 | 64) => Type::Int(bits),
                bits => return refuse(format!("integers of {bits} bits aren't supported")),
            },
            Op::TypeFloat => match (word(0)?, instruction.operands.get(1)) {
                (bits @ (16 | 32 | 64), None) => Type::Float(bits),
                (bits, None) => return refuse(format!("floats of {bits} bits aren't supported")),
                (bits, Some(encoding)) => {
                    return refuse(format!(
                        "floats of {bits} bits in the encoding {encoding} aren't supported"
                    ));
                }
            },
            Op::TypeVector => {
                let (element, count) = (word(0)?, word(1)?);
                let is_scalar = matches!(self.get(element)?, Type::Bool | Type::Int(_) | Type::Float(_));
                if !is_scalar || ![2, 3, 4, 8, 16].contains(&count) {
                    return refuse(format!("a vector of {count} components of that type isn't supported"));
                }
                Type::Vector(element, count)
            }
            Op::TypeArray => {
                let (element, count) = (self.value(word(0)?)?, constants.unsigned(word(1)?)?);
                if count == 0 {
                    return refuse("an array has no elements");
                }
                Type::Array(element, count)
            }
            Op::TypeStruct => {
                let members = instruction.operands.iter().map(|&id| self.value(id));
                Type::Struct(members.collect::<Result<_>>()?)
            }
            Op::TypeOpaque => Type::Opaque,
            // The type may be a later one's: it matters where the pointer is used.
            Op::TypePointer => Type::Pointer(address_space(word(0)?)?, Some(word(1)?)),
            Op::TypeUntypedPointerKHR => Type::Pointer(address_space(word(0)?)?, None),
            Op::TypeFunction => {
                let (returned, parameters) = (word(0)?, &instruction.operands[1..]);
                self.get(returned)?;
                let parameters = parameters.iter().map(|&id| self.value(id)).collect::<Result<_>>()?;
                Type::Function(returned, parameters)
            }
            Op::TypeImage => {
                let ([_, dimension, depth, arrayed, multisampled, sampled, format], access) =
                    instruction.words()?;
                let access = access.first().copied().unwrap_or(0);
                let image = ImageType { dimension, depth, arrayed, multisampled, sampled, format, access };
                if image.name().is_none() {
                    return refuse(format!(
                        "an image of dimension {dimension}, arrayed {arrayed}, multisampled {multisampled} isn't supported"
                    ));
                }
                Type::Image(image)
            }
            Op::TypeSampledImage => Type::SampledImage(word(0)?),
            Op::TypeSampler => Type::Sampler,
            Op::TypeEvent => Type::Event,
            Op::TypeDeviceEvent => Type::DeviceEvent,
            Op::TypeReserveId => Type::ReserveId,
            Op::TypeQueue => Type::Queue,
            Op::TypePipe => Type::Pipe,
            Op::TypePipeStorage => Type::PipeStorage,
            op => return refuse(format!("Op{op:?} isn't supported")),
        })
    }

    /// A type that may be a part of another.
    fn value(&self, id: Id) -> Result<Id> {
        if self.is_value(id)? { Ok(id) } else { refuse("void or a function type is a part of another type") }
    }

    fn write(&mut self, module: &Module, id: Id, ty: &Type) -> Result<String> {
        Ok(match ty {
            Type::Void => "void".into(),
            Type::Bool => "i1".into(),
            Type::Int(bits) => format!("i{bits}"),
            Type::Float(16) => "half".into(),
            Type::Float(32) => "float".into(),
            Type::Float(_) => "double".into(),
            Type::Vector(element, count) => format!("<{count} x {}>", self.text(*element)?),
            Type::Array(element, count) => format!("[{count} x {}]", self.text(*element)?),
            Type::Struct(members) => {
                let members: Vec<&str> = members.iter().map(|&id| self.text(id)).collect::<Result<_>>()?;
                let members = members.join(", ");
                let line = match module.has(id, Decoration::CPacked) {
                    true => format!("%s{id} = type <{{ {members} }}>\n"),
                    false => format!("%s{id} = type {{ {members} }}\n"),
                };
                if line.len() > MAX_TEXT * 16 {
                    return refuse("a structure has too many members");
                }
                if module.has(id, Decoration::CPacked) {
                    self.packed.insert(id);
                }
                self.definitions += &line;
                format!("%s{id}")
            }
            Type::Opaque => {
                self.definitions += &format!("%s{id} = type opaque\n");
                format!("%s{id}")
            }
            Type::Pointer(space, _) => pointer_text(*space),
            Type::Function(..) => String::new(),
            Type::Image(_) | Type::Pipe => pointer_text(1),
            Type::SampledImage(_) => SAMPLED_IMAGE.into(),
            Type::Sampler => "i32".into(),
            Type::Event | Type::DeviceEvent | Type::ReserveId | Type::Queue => pointer_text(0),
            // Where the pipe's memory is.
            Type::PipeStorage => pointer_text(1),
        })
    }
}

impl ImageType {
    /// What the names of types have behind `Image._`.
    pub fn postfix(&self) -> String {
        let ImageType { dimension, depth, arrayed, multisampled, sampled, format, access } = self;
        format!("void_{dimension}_{depth}_{arrayed}_{multisampled}_{sampled}_{format}_{access}")
    }

    /// OpenCL C's name; `None` of what it hasn't, or the device hasn't.
    pub fn name(&self) -> Option<&'static str> {
        match (self.dimension, self.arrayed, self.depth, self.multisampled) {
            (0, 0, 0, 0) => Some("image1d_t"),
            (0, 1, 0, 0) => Some("image1d_array_t"),
            (1, 0, 0, 0) => Some("image2d_t"),
            (1, 1, 0, 0) => Some("image2d_array_t"),
            (1, 0, 1, 0) => Some("image2d_depth_t"),
            (1, 1, 1, 0) => Some("image2d_array_depth_t"),
            (2, 0, 0, 0) => Some("image3d_t"),
            (5, 0, 0, 0) => Some("image1d_buffer_t"),
            _ => None,
        }
    }
}
