//! Kernel IR: a whole program. Kernels, the functions that they call, constants, and the block of program-scope variables.

use crate::Function;
use serde::{Deserialize, Serialize};
use spirula_interface::program::ProgramData;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A program. Names of functions and constants are distinct, and consist of characters that can stand in quotes anywhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Module {
    /// What the host calls: kernels, and once those are lowered, their work-group functions.
    pub kernels: Vec<Function>,
    /// What stays a call: [`crate::Signature::Function`] each. They don't call kernels, nor each other in a circle.
    pub functions: Vec<Function>,
    /// What never changes, so that it may be copied into each object.
    pub constants: Vec<ConstantData>,
    /// The program-scope variables, and the constants that point to them or that they point to. `GlobalAddress` of
    /// [`spirula_interface::program::DATA_SYMBOL`] is the block's.
    pub data: ProgramData,
}

/// Constant bytes, some of which are addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantData {
    /// By which `GlobalAddress` refers to it.
    pub name: Arc<str>,
    /// What its address is a multiple of.
    pub align: u32,
    /// How many bytes there are.
    pub size: u64,
    /// The first bytes; the rest is zero.
    pub bytes: Vec<u8>,
    /// In ascending order, not overlapping; `bytes` holds zeros there.
    pub pointers: Vec<Pointer>,
}

/// An address that a constant contains, in 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Where it lies.
    pub at: u64,
    /// The constant that it points to.
    pub target: Arc<str>,
    /// Bytes behind that one's beginning; those before it are as large as 64-bit arithmetic makes them.
    pub offset: u64,
}

/// Why bytes are no module.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// They are not the serialized form.
    #[error("the bytes are no Kernel IR: {0}")]
    Malformed(String),
    /// The module breaks a rule.
    #[error("the Kernel IR is wrong: {0}")]
    Wrong(String),
}

impl Module {
    /// The serialized form.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Nothing in a module can fail to serialize, and a vector takes all that is written to it.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads the serialized form, from wherever it comes: the module that is returned keeps all rules.
    pub fn from_bytes(bytes: &[u8]) -> Result<Module, ReadError> {
        let (mut module, rest): (Module, &[u8]) =
            postcard::take_from_bytes(bytes).map_err(|error| ReadError::Malformed(error.to_string()))?;
        if !rest.is_empty() {
            return Err(ReadError::Malformed(format!("{} bytes are left over", rest.len())));
        }
        module.verify().map_err(ReadError::Wrong)?;
        module.kernels.iter_mut().chain(&mut module.functions).for_each(Function::index_constants);
        Ok(module)
    }

    /// The functions and constants that these functions reach by calls and addresses, by name.
    pub fn reached<'m>(&'m self, roots: impl IntoIterator<Item = &'m Function>) -> HashSet<&'m str> {
        let functions: HashMap<&str, &Function> =
            self.functions.iter().map(|f| (f.name.as_str(), f)).collect();
        let constants: HashMap<&str, &ConstantData> = self.constants.iter().map(|c| (&*c.name, c)).collect();
        let mut names = HashSet::new();
        let mut open: Vec<&str> = roots.into_iter().flat_map(Function::names_used).collect();
        while let Some(name) = open.pop() {
            if !names.insert(name) {
                continue;
            }
            open.extend(functions.get(name).into_iter().flat_map(|function| function.names_used()));
            let pointers = constants.get(name).into_iter().flat_map(|constant| &constant.pointers);
            open.extend(pointers.map(|pointer| &*pointer.target));
        }
        names
    }

    /// Bytes of private memory that each function needs with all that it calls.
    pub fn stack_sizes(&self) -> HashMap<&str, u64> {
        let mut known: HashMap<&str, u64> = HashMap::new();
        let mut open: Vec<&Function> = self.functions.iter().collect();
        while !open.is_empty() {
            let before = open.len();
            open.retain(|function| match function.stack_size(&known) {
                Some(size) => known.insert(&function.name, size).is_some(),
                None => true,
            });
            if open.len() == before {
                break; // Recursion, which the verifier refuses.
            }
        }
        known
    }

    /// Its constants and variables alone.
    pub fn without_code(&self) -> Module {
        let Module { constants, data, .. } = self;
        Module { constants: constants.clone(), data: data.clone(), ..Module::default() }
    }

    /// All functions, kernels first.
    pub fn all_functions(&self) -> impl Iterator<Item = &Function> {
        self.kernels.iter().chain(&self.functions)
    }
}

#[cfg(test)]
mod tests;
