//! What of a program the baseline's back end compiles: kernels and functions, legalized, beside those as LLVM gets them.

use spirula_interface::tier::Tier;
use spirula_kir::lower::WorkGroupFunction;
use spirula_kir::transform::legalize::{Illegal, legalize};
use spirula_kir::{Function, Module};
use std::collections::HashMap;

/// The baseline's part of a program.
pub struct Baseline<'m> {
    module: &'m Module,
    /// What stays a call.
    functions: HashMap<&'m str, Result<Function, Illegal>>,
    /// What is called from outside.
    kernels: Vec<Function>,
    /// What kernels call for smaller groups.
    remainders: Vec<Function>,
}

impl<'m> Baseline<'m> {
    /// Of a program without its kernels. Nothing is done if there is to be no baseline.
    pub fn new(module: &'m Module, tier: Tier) -> Self {
        let functions = module.functions.iter().filter(|_| tier == Tier::Baseline);
        let functions = functions.map(|function| (function.name.as_str(), legalize(function))).collect();
        Baseline { module, functions, kernels: Vec::new(), remainders: Vec::new() }
    }

    /// Adds what an optimized kernel calls from another object. Errors: what of it, or of what it calls, can't be legalized.
    pub fn add_rest(&mut self, rest: &Function) -> Result<(), Illegal> {
        let callees = self.module.reached([rest]);
        for function in self.module.functions.iter().filter(|function| callees.contains(&*function.name)) {
            let known = self.functions.entry(&function.name).or_insert_with(|| legalize(function));
            known.as_ref().map_err(Illegal::clone)?;
        }
        self.kernels.push(legalize(rest)?);
        Ok(())
    }

    /// Adds a lowered kernel. Errors: what of it, or of what it calls, can't be legalized.
    pub fn add(&mut self, kernel: &WorkGroupFunction) -> Result<(), Illegal> {
        let callees = self.module.reached(kernel.functions());
        let illegal = callees.iter().find_map(|&name| self.functions.get(name)?.as_ref().err());
        if let Some(illegal) = illegal {
            return Err(illegal.clone());
        }
        let remainder = kernel.remainder.as_deref().map(legalize).transpose()?;
        self.kernels.push(legalize(&kernel.function)?);
        self.remainders.extend(remainder);
        Ok(())
    }

    /// The kernels that were added, and what they use.
    pub fn module(self) -> Module {
        if self.kernels.is_empty() {
            return Module::default();
        }
        Module {
            kernels: self.kernels,
            functions: self.functions.into_values().flatten().chain(self.remainders).collect(),
            ..self.module.without_code()
        }
    }
}
