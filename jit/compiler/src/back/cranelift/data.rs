//! The baseline's back end: constants in memory, and the program's variables, which lie elsewhere.

use super::{BaselineError, Object, illegal};
use cranelift_module::{DataDescription, Linkage, Module as _};
use spirula_interface::program::{DATA_SYMBOL, MEMORY_SYMBOL};
use spirula_kir::ConstantData;
use std::sync::Arc;

impl Object {
    /// Declares and defines constants, which may point to each other.
    pub(super) fn constants(&mut self, constants: &[&ConstantData]) -> Result<(), BaselineError> {
        for constant in constants {
            let id = self.module.declare_data(&constant.name, Linkage::Local, false, false);
            self.data.insert(constant.name.clone(), id.map_err(BaselineError::of)?);
        }
        constants.iter().try_for_each(|constant| self.constant(constant))
    }

    fn constant(&mut self, constant: &ConstantData) -> Result<(), BaselineError> {
        let mut bytes = constant.bytes.clone();
        // An address of its own takes a byte.
        bytes.resize((constant.size as usize).max(1), 0);
        let mut data = DataDescription::new();
        data.define(bytes.into());
        data.set_align(constant.align.max(1).into());
        for pointer in &constant.pointers {
            let target = self.data.get(&pointer.target).copied();
            let target = target.ok_or_else(|| illegal(format!("the constant {}", pointer.target)))?;
            let target = self.module.declare_data_in_data(target, &mut data);
            let at = u32::try_from(pointer.at).map_err(BaselineError::of)?;
            data.write_data_addr(at, target, pointer.offset as i64);
        }
        let id = self.data[&constant.name];
        self.module.define_data(id, &data).map_err(BaselineError::of)
    }

    /// What a `GlobalAddress` names: a constant, the block of variables, or the linear memory.
    pub(super) fn declare_data(&mut self, name: &Arc<str>) -> Result<(), BaselineError> {
        if self.data.contains_key(name) {
            return Ok(());
        }
        if ![DATA_SYMBOL, MEMORY_SYMBOL].contains(&&**name) {
            return Err(illegal(format!("the constant {name}")));
        }
        let id = self.module.declare_data(name, Linkage::Import, true, false);
        self.data.insert(name.clone(), id.map_err(BaselineError::of)?);
        Ok(())
    }
}
