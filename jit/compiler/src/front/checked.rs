//! The functions of the builtin library that checked kernels call (`SPIRULA_CHECK`). Checks are written in Kernel IR, where linking is over:
//! these come in a module of their own.

use super::CleanModule;
use super::import::import;
use crate::builtin;
use crate::llvm::{self, Session};
use inkwell::targets::TargetMachine;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::check::Checks;
use spirula_interface::options::CompileError;
use spirula_kir::transform::check::{Callee, FUNCTIONS};
use spirula_kir::{Function, Op};
use std::collections::HashMap;
use std::sync::Arc;

/// The functions that checks call, by the names that they call them by: for pointers of 64 bits, as no others are checked.
pub fn functions(session: &Session, machine: &TargetMachine) -> Result<Vec<Function>, CompileError> {
    let wrong = |why: &dyn std::fmt::Display| {
        CompileError::Failed(format!(
            "error: internal error of the compiler: the functions of checks: {why}\n"
        ))
    };
    let mut module = llvm::parse_text(session, &FUNCTIONS.iter().map(declaration).collect::<String>())
        .map_err(|error| wrong(&error))?;
    llvm::set_target(&mut module, machine, AddressBits::Bits64);
    llvm::link_lazily(session, &mut module, builtin::library(llvm::facts(machine).fuses), machine)
        .map_err(|error| wrong(&error))?;
    let clean = CleanModule { module, kernels: Vec::new(), checks: Checks::NONE, left_out: Vec::new() };
    let mut functions = import(clean)?.module.functions;
    // Names that no function of a program has: those that these call themselves get numbers.
    let mut names: HashMap<String, Arc<str>> = HashMap::new();
    for (number, function) in functions.iter_mut().enumerate() {
        let named = FUNCTIONS.iter().find(|callee| function.name.ends_with(callee.symbol));
        let name = named.map_or_else(|| format!("spirula.check.{number}"), |callee| callee.name.to_owned());
        names.insert(std::mem::replace(&mut function.name, name.clone()), name.into());
        function.attributes.noinline = true;
        function.attributes.cold = !named.is_some_and(Callee::is_hot);
    }
    for function in &mut functions {
        for inst in function.insts().collect::<Vec<_>>() {
            if let Op::Call { function: callee, .. } = function.op_mut(inst)
                && let Some(name) = names.get(&**callee)
            {
                *callee = name.clone();
            }
        }
    }
    match FUNCTIONS.iter().find(|callee| functions.iter().all(|function| function.name != callee.name)) {
        Some(missing) => Err(wrong(&format!("there is no `{}`", missing.symbol))),
        None => Ok(functions),
    }
}

/// How it is declared, with a use, so that it is linked.
fn declaration(callee: &Callee) -> String {
    let result = if callee.yields { "i64" } else { "void" };
    format!("declare {result} @{}({})\n", callee.symbol, vec!["i64"; callee.parameters].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_there() {
        let session = Session::new();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let functions = functions(&session, &machine).unwrap();
        assert!(FUNCTIONS.iter().all(|callee| functions.iter().any(|function| function.name == callee.name)));
        assert!(functions.iter().all(|function| function.insts().count() > 0));
    }
}
