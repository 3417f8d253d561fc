//! How types and constants are serialized: in a list, each before its parts, so that no input makes the reader's recursion
//! deeper than [`DEPTH`].

use crate::types::Limits;
use crate::{Constant, Scalar, Type};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Structures in arrays in structures.
const DEPTH: u32 = Limits::REGISTER.depth;

/// One node of a type.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum TypeNode {
    Scalar(Scalar),
    Vector(Scalar, u32),
    /// So many members follow.
    Struct(u32),
    /// The element follows.
    Array(u64),
}

/// One node of a constant.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum ConstantNode {
    Int(u128),
    Float(u64),
    Zero,
    Undef,
    Poison,
    /// So many follow, and their types.
    Elements(Vec<Type>),
}

fn write_type(ty: &Type, list: &mut Vec<TypeNode>) {
    match ty {
        Type::Scalar(scalar) => list.push(TypeNode::Scalar(*scalar)),
        Type::Vector(scalar, lanes) => list.push(TypeNode::Vector(*scalar, *lanes)),
        Type::Struct(members) => {
            list.push(TypeNode::Struct(members.len() as u32));
            members.iter().for_each(|member| write_type(member, list));
        }
        Type::Array(element, count) => {
            list.push(TypeNode::Array(*count));
            write_type(element, list);
        }
    }
}

fn read_type(list: &mut impl Iterator<Item = TypeNode>, depth: u32) -> Option<Type> {
    let next = list.next().filter(|_| depth <= DEPTH)?;
    Some(match next {
        TypeNode::Scalar(scalar) => Type::Scalar(scalar),
        TypeNode::Vector(scalar, lanes) => Type::Vector(scalar, lanes),
        TypeNode::Struct(count) => {
            let members: Option<Vec<Type>> = (0..count).map(|_| read_type(list, depth + 1)).collect();
            Type::Struct(members?.into())
        }
        TypeNode::Array(count) => Type::Array(Arc::new(read_type(list, depth + 1)?), count),
    })
}

fn write_constant(constant: &Constant, list: &mut Vec<ConstantNode>) {
    list.push(match constant {
        Constant::Int(bits) => ConstantNode::Int(*bits),
        Constant::Float(bits) => ConstantNode::Float(*bits),
        Constant::Zero => ConstantNode::Zero,
        Constant::Undef => ConstantNode::Undef,
        Constant::Poison => ConstantNode::Poison,
        Constant::Elements(elements) => {
            ConstantNode::Elements(elements.iter().map(|(ty, _)| ty.clone()).collect())
        }
    });
    if let Constant::Elements(elements) = constant {
        elements.iter().for_each(|(_, element)| write_constant(element, list));
    }
}

fn read_constant(list: &mut impl Iterator<Item = ConstantNode>, depth: u32) -> Option<Constant> {
    let next = list.next().filter(|_| depth <= DEPTH)?;
    Some(match next {
        ConstantNode::Int(bits) => Constant::Int(bits),
        ConstantNode::Float(bits) => Constant::Float(bits),
        ConstantNode::Zero => Constant::Zero,
        ConstantNode::Undef => Constant::Undef,
        ConstantNode::Poison => Constant::Poison,
        ConstantNode::Elements(types) => {
            let read = |ty| Some((ty, read_constant(list, depth + 1)?));
            Constant::Elements(types.into_iter().map(read).collect::<Option<_>>()?)
        }
    })
}

/// The whole list, or an error if it ends early, late, or goes too deep.
fn whole<N, T>(
    list: Vec<N>,
    read: impl FnOnce(&mut std::vec::IntoIter<N>) -> Option<T>,
) -> Result<T, &'static str> {
    let mut nodes = list.into_iter();
    let result = read(&mut nodes).filter(|_| nodes.as_slice().is_empty());
    result.ok_or("a type or constant is incomplete or too deep")
}

impl From<Type> for Vec<TypeNode> {
    fn from(ty: Type) -> Self {
        let mut list = Vec::new();
        write_type(&ty, &mut list);
        list
    }
}

impl TryFrom<Vec<TypeNode>> for Type {
    type Error = &'static str;

    fn try_from(list: Vec<TypeNode>) -> Result<Self, Self::Error> {
        whole(list, |nodes| read_type(nodes, 0))
    }
}

impl From<Constant> for Vec<ConstantNode> {
    fn from(constant: Constant) -> Self {
        let mut list = Vec::new();
        write_constant(&constant, &mut list);
        list
    }
}

impl TryFrom<Vec<ConstantNode>> for Constant {
    type Error = &'static str;

    fn try_from(list: Vec<ConstantNode>) -> Result<Self, Self::Error> {
        whole(list, |nodes| read_constant(nodes, 0))
    }
}
