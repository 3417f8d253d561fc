//! Kernel IR: types and constants.

use crate::wire::{ConstantNode, TypeNode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// SPIR's address spaces (SPIR 2.0, section 2.2), and one of ours. They stay to the end, for what they say about aliasing:
/// those of different spaces don't overlap, but generic pointers, which may lead anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum AddressSpace {
    Private = 0,
    Global = 1,
    Constant = 2,
    Local = 3,
    Generic = 4,
    /// Scratch memory in which a work-group function keeps its work-items' values between barriers.
    Context = 5,
}

impl AddressSpace {
    /// Every address space.
    pub const ALL: [AddressSpace; 6] =
        [Self::Private, Self::Global, Self::Constant, Self::Local, Self::Generic, Self::Context];

    /// From SPIR's number.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Private, Self::Global, Self::Constant, Self::Local, Self::Generic]
            .get(number as usize)
            .copied()
    }
}

/// What a register or a vector's lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Scalar {
    /// An integer of 1 to 128 bits.
    Int(u32),
    Half,
    Float,
    Double,
    Pointer(AddressSpace),
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Vec<TypeNode>", try_from = "Vec<TypeNode>")]
pub enum Type {
    /// One lane.
    Scalar(Scalar),
    /// A fixed vector of any length of at least 1.
    Vector(Scalar, u32),
    /// A literal structure in registers, such as a compare-exchange's `{i32, i1}`; not packed.
    Struct(Arc<[Type]>),
    /// An array in registers.
    Array(Arc<Type>, u64),
}

impl Type {
    /// `i1`, the type of conditions.
    pub const BOOL: Type = Type::Scalar(Scalar::Int(1));
    /// `i32`.
    pub const I32: Type = Type::Scalar(Scalar::Int(32));
    /// `i64`, also size_t.
    pub const I64: Type = Type::Scalar(Scalar::Int(64));
    /// A private pointer.
    pub const PRIVATE_POINTER: Type = Type::Scalar(Scalar::Pointer(AddressSpace::Private));

    /// An integer type of `bits` bits.
    pub fn int(bits: u32) -> Type {
        Type::Scalar(Scalar::Int(bits))
    }

    /// A pointer into `space`.
    pub fn pointer(space: AddressSpace) -> Type {
        Type::Scalar(Scalar::Pointer(space))
    }

    /// The lane type of a scalar or vector.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) | Type::Vector(s, _) => Some(*s),
            _ => None,
        }
    }

    /// Lanes of a scalar (1) or vector.
    pub fn lanes(&self) -> u32 {
        if let Type::Vector(_, n) = self { *n } else { 1 }
    }

    /// A vector's lanes, `Some(None)` of a scalar, `None` of an aggregate: equal where values go lane by lane.
    pub fn lane_count(&self) -> Option<Option<u32>> {
        match self {
            Type::Scalar(_) => Some(None),
            Type::Vector(_, n) => Some(Some(*n)),
            Type::Struct(_) | Type::Array(..) => None,
        }
    }

    /// The same shape with another lane type.
    pub fn with_scalar(&self, scalar: Scalar) -> Type {
        if let Type::Vector(_, n) = self { Type::Vector(scalar, *n) } else { Type::Scalar(scalar) }
    }

    /// The address space of a scalar pointer.
    pub fn address_space(&self) -> Option<AddressSpace> {
        if let Type::Scalar(Scalar::Pointer(space)) = self { Some(*space) } else { None }
    }

    /// Whether pointers are in it.
    pub fn has_pointers(&self) -> bool {
        match self {
            Type::Scalar(scalar) | Type::Vector(scalar, _) => matches!(scalar, Scalar::Pointer(_)),
            Type::Struct(members) => members.iter().any(Type::has_pointers),
            Type::Array(element, _) => element.has_pointers(),
        }
    }

    /// Whether a lane is half, float or double.
    pub fn is_float(&self) -> bool {
        matches!(self.scalar(), Some(Scalar::Half | Scalar::Float | Scalar::Double))
    }

    /// Whether it is a type at all, and small enough. Nothing that computes with such a type's size wraps.
    pub fn check(&self, limits: Limits) -> Result<(), String> {
        match self.count(limits, 0) {
            Some(_) => Ok(()),
            None => Err(format!("the type has more than {} elements, or is none", limits.elements)),
        }
    }

    /// The scalars in it, if they are few enough.
    fn count(&self, limits: Limits, depth: u32) -> Option<u64> {
        let scalar = |s: &Scalar| !matches!(s, Scalar::Int(0) | Scalar::Int(129..));
        let count = match self {
            _ if depth > limits.depth => return None,
            Type::Scalar(s) => u64::from(scalar(s)),
            Type::Vector(s, n) => u64::from(*n) * u64::from(scalar(s)),
            Type::Array(element, n) => {
                element.count(limits, depth + 1)?.checked_mul(*n)?.max(u64::from(*n <= limits.elements))
            }
            Type::Struct(members) => members.iter().try_fold(1, |sum: u64, member| {
                Some(sum.saturating_add(member.count(limits, depth + 1)?))
                    .filter(|&sum| sum <= limits.elements)
            })?,
        };
        (1..=limits.elements).contains(&count).then_some(count)
    }

    /// Bytes from one element of an array of this type to the next, as the host's LLVM lays it out.
    pub fn size(&self) -> u64 {
        match self {
            Type::Scalar(s) => s.bits().div_ceil(8).next_power_of_two(),
            Type::Vector(s, n) => (s.bits() * u64::from(*n)).div_ceil(8).next_power_of_two(),
            Type::Struct(fields) => {
                let end = fields.iter().fold(0, |at: u64, f| at.next_multiple_of(f.align()) + f.size());
                end.next_multiple_of(self.align())
            }
            Type::Array(element, n) => element.size() * n,
        }
    }

    /// Natural alignment in bytes.
    pub fn align(&self) -> u64 {
        match self {
            Type::Scalar(_) | Type::Vector(..) => self.size(),
            Type::Struct(fields) => fields.iter().map(Type::align).max().unwrap_or(1),
            Type::Array(element, _) => element.align(),
        }
    }
}

/// How large a type may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Scalars that it consists of.
    pub elements: u64,
    /// Structures in arrays in structures.
    pub depth: u32,
}

impl Limits {
    /// Of a value in registers.
    pub const REGISTER: Limits = Limits { elements: 1 << 16, depth: 64 };
}

impl Scalar {
    /// Width in bits.
    pub fn bits(self) -> u64 {
        match self {
            Scalar::Int(bits) => u64::from(bits),
            Scalar::Half => 16,
            Scalar::Float => 32,
            Scalar::Double | Scalar::Pointer(_) => 64,
        }
    }
}

/// A constant's value; its type stands beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Vec<ConstantNode>", try_from = "Vec<ConstantNode>")]
pub enum Constant {
    /// An integer's bits, zero-extended.
    Int(u128),
    /// A float's bits in its own format.
    Float(u64),
    /// The null pointer, or all bits zero for a vector or aggregate.
    Zero,
    /// Any value, possibly another at each use.
    Undef,
    /// A deferred error.
    Poison,
    /// A vector, structure or array, element by element, with each element's type.
    Elements(Vec<(Type, Constant)>),
}
