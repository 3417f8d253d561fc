//! Import: LLVM's types.

use super::Import;
use crate::llvm;
use inkwell::llvm_sys::LLVMTypeKind::*;
use spirula_kir::{AddressSpace, Limits, Scalar, Type};
use std::sync::Arc;

/// A register's type.
pub(super) fn import(ty: llvm::Type) -> Import<Type> {
    let whole = unchecked(ty)?;
    whole.check(Limits::REGISTER).map_err(|error| format!("has a value of type {ty}: {error}"))?;
    Ok(whole)
}

fn unchecked(ty: llvm::Type) -> Import<Type> {
    if let Some(scalar) = scalar(ty) {
        return Ok(Type::Scalar(scalar));
    }
    let unsupported = || format!("has a value of type {ty}, which is not supported");
    let element = || ty.element().ok_or_else(unsupported);
    match ty.kind() {
        LLVMVectorTypeKind => {
            let lanes = u32::try_from(ty.element_count()).map_err(|_| unsupported())?;
            Ok(Type::Vector(scalar(element()?).ok_or_else(unsupported)?, lanes))
        }
        LLVMArrayTypeKind => Ok(Type::Array(Arc::new(unchecked(element()?)?), ty.element_count())),
        LLVMStructTypeKind if !ty.is_packed() => {
            let members: Result<Vec<Type>, String> = ty.members().into_iter().map(unchecked).collect();
            Ok(Type::Struct(members?.into()))
        }
        _ => Err(unsupported()),
    }
}

fn scalar(ty: llvm::Type) -> Option<Scalar> {
    match ty.kind() {
        LLVMIntegerTypeKind if ty.integer_width() <= 128 => Some(Scalar::Int(ty.integer_width())),
        LLVMHalfTypeKind => Some(Scalar::Half),
        LLVMFloatTypeKind => Some(Scalar::Float),
        LLVMDoubleTypeKind => Some(Scalar::Double),
        LLVMPointerTypeKind => AddressSpace::from_number(ty.address_space()).map(Scalar::Pointer),
        _ => None,
    }
}
