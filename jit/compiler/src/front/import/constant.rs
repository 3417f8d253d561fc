//! Import: constants. Plain ones become Kernel IR constants; addresses and constant expressions become instructions
//! where they are used.

use super::{Import, Importer, Place, types, unsupported};
use crate::front::limits;
use crate::llvm::Value;
use inkwell::llvm_sys::LLVMValueKind::*;
use spirula_interface::program::DATA_SYMBOL;
use spirula_kir as kir;
use spirula_kir::transform::check::Variable;
use spirula_kir::{Constant, Op, Signature, Type};
use std::sync::Arc;

impl<'m> Importer<'m, '_> {
    /// A constant's value.
    pub(super) fn constant(&mut self, value: Value<'m>) -> Import<kir::Value> {
        match value.kind() {
            LLVMGlobalVariableValueKind => return self.variable(value),
            LLVMConstantExprValueKind => {
                let result = self.instruction_value(value)?;
                return result.ok_or_else(|| format!("contains the constant `{value}`, which has no value"));
            }
            LLVMFunctionValueKind => {
                return Err(format!("takes the address of the function `{}`", value.name()));
            }
            _ if !value.is_constant() => return Err(format!("uses `{value}` before it is defined")),
            _ => {}
        }
        let ty = types::import(value.ty())?;
        match plain(value)? {
            Some(constant) => Ok(self.function.constant(ty, constant)),
            None => self.aggregate(value, ty),
        }
    }

    /// The address of a program-scope variable, or of a local one of this kernel.
    fn variable(&mut self, variable: Value<'m>) -> Import<kir::Value> {
        let ty = types::import(variable.ty())?;
        if variable.ty().address_space() == 3 {
            let offset = self.local_offset(variable)?;
            return Ok(self.push(ty, Op::LocalAddress { offset }));
        }
        match self.shared.data.places.get(&variable) {
            Some(Place::Constant(name)) => Ok(self.push(ty, Op::GlobalAddress(name.clone()))),
            Some(&Place::Block(offset)) => {
                let base = self.push(ty.clone(), Op::GlobalAddress(DATA_SYMBOL.into()));
                let (index, scale, offset, inbounds) = (None, 0, offset as i64, true);
                Ok(self.push(ty, Op::Address { base, index, scale, offset, inbounds }))
            }
            None => Err(format!("uses the variable `{}`, which is not in memory", variable.name())),
        }
    }

    /// Where a local variable lies in the group's local memory.
    fn local_offset(&mut self, variable: Value<'m>) -> Import<u64> {
        if let Some(&offset) = self.local.get(&variable) {
            return Ok(offset);
        }
        if self.function.signature != Signature::Kernel {
            return Err(format!("uses the local variable `{}`, which only kernels can", variable.name()));
        }
        let ty = variable.as_global().map(|global| global.value_type()).filter(|ty| ty.is_sized());
        let Some(ty) = ty else { return unsupported(variable) };
        let alignment = u64::from(variable.alignment().max(self.shared.layout.alignment(ty)));
        let offset = self.function.local_size.next_multiple_of(alignment);
        self.function.local_size = offset
            .checked_add(limits::bytes(self.shared.layout, ty).unwrap_or(u64::MAX))
            .filter(|&end| end <= u64::from(u32::MAX))
            .ok_or_else(|| format!("has the local variable `{}`, which is too large", variable.name()))?;
        self.local.insert(variable, offset);
        let size = self.function.local_size - offset;
        self.local_variables.push(Variable { name: variable.name(), offset, size });
        Ok(offset)
    }

    /// A vector, array or structure with addresses or expressions in it, built element by element.
    fn aggregate(&mut self, value: Value<'m>, ty: Type) -> Import<kir::Value> {
        let mut whole = self.function.constant(ty.clone(), Constant::Poison);
        for index in 0..value.ty().element_count() as u32 {
            let Some(element) = value.aggregate_element(index) else { return unsupported(value) };
            let element = self.value(element)?;
            whole = match ty {
                Type::Vector(..) => {
                    let index = self.function.int(Type::I32, u128::from(index));
                    self.push(ty.clone(), Op::InsertElement { vector: whole, element, index })
                }
                _ => {
                    let indices = Arc::from([index]);
                    self.push(ty.clone(), Op::InsertValue { aggregate: whole, value: element, indices })
                }
            };
        }
        Ok(whole)
    }
}

/// A constant without addresses or expressions in it; `None` if there are some.
fn plain(value: Value) -> Import<Option<Constant>> {
    Ok(Some(match value.kind() {
        LLVMConstantIntValueKind => match value.wide_bits() {
            // A splat is one constant of the vector's type.
            Some(bits) if !value.ty().is_vector() => Constant::Int(bits),
            _ => return elements(value),
        },
        LLVMConstantFPValueKind => match value.float_bits() {
            Some(bits) if !value.ty().is_vector() => Constant::Float(bits),
            _ => return elements(value),
        },
        LLVMConstantPointerNullValueKind | LLVMConstantAggregateZeroValueKind => Constant::Zero,
        LLVMPoisonValueKind => Constant::Poison,
        LLVMUndefValueValueKind => Constant::Undef,
        LLVMConstantDataArrayValueKind
        | LLVMConstantDataVectorValueKind
        | LLVMConstantArrayValueKind
        | LLVMConstantStructValueKind
        | LLVMConstantVectorValueKind => return elements(value),
        LLVMConstantExprValueKind | LLVMGlobalVariableValueKind => return Ok(None),
        _ => return unsupported(value),
    }))
}

fn elements(value: Value) -> Import<Option<Constant>> {
    let mut list = Vec::new();
    for index in 0..value.ty().element_count() as u32 {
        let Some(element) = value.aggregate_element(index) else { return unsupported(value) };
        let Some(constant) = plain(element)? else { return Ok(None) };
        list.push((types::import(element.ty())?, constant));
    }
    if list.is_empty() {
        return unsupported(value);
    }
    Ok(Some(Constant::Elements(list)))
}
