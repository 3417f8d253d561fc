//! Verifier: what holds between the parts of a module.

use super::tables::is_alignment;
use super::verify;
use crate::{Function, Inst, Module, Op, Signature, Terminator, Type};
use spirula_interface::program::{DATA_SYMBOL, MAX_ALIGNMENT, MAX_PROGRAM_DATA, MEMORY_SYMBOL, ProgramData};
use std::collections::{HashMap, HashSet};

impl Module {
    /// Checks every function, and that names are distinct, calls fit signatures, and data is in bounds. Returns the first
    /// rule that is broken, and where. No module, however broken, makes it panic.
    pub fn verify(&self) -> Result<(), String> {
        let names = self.names()?;
        for function in self.all_functions() {
            let named = |error| format!("{error}, in the function `{}`", function.name.escape_debug());
            verify(function).map_err(named)?;
            let is_linear = self.data.addresses.is_linear();
            let checker = Checker { function, names: &names, has_data: self.data.size > 0, is_linear };
            checker.check().map_err(named)?;
        }
        self.no_recursion()?;
        self.constants(&names)?;
        data(&self.data).map_err(|error| format!("{error}, in the block of variables"))
    }

    /// What the names stand for.
    fn names(&self) -> Result<HashMap<&str, Symbol<'_>>, String> {
        let functions = self.functions.iter().map(|f| (f.name.as_str(), Symbol::Function(f)));
        let constants = self.constants.iter().map(|c| (&*c.name, Symbol::Constant));
        let kernels = self.kernels.iter().map(|k| (k.name.as_str(), Symbol::Kernel));
        let mut names = HashMap::new();
        for (name, symbol) in functions.chain(constants).chain(kernels) {
            // Only a kernel may be called as its source says. Its work-group function gets a name of ours.
            let is_kernel = matches!(symbol, Symbol::Kernel);
            if !is_kernel && (!is_plain(name) || [DATA_SYMBOL, MEMORY_SYMBOL].contains(&name)) {
                return Err(format!("`{}` is no name", name.escape_debug()));
            }
            if names.insert(name, symbol).is_some() {
                return Err(format!("there are two `{}`", name.escape_debug()));
            }
        }
        if let Some(kernel) = self.functions.iter().find(|f| f.signature == Signature::Kernel) {
            return Err(format!("`{}` is a kernel among functions", kernel.name));
        }
        let lowered = self.kernels.iter().filter(|k| k.signature != Signature::Kernel);
        match lowered.into_iter().find(|k| !is_plain(&k.name)) {
            Some(kernel) => Err(format!("`{}` is no name", kernel.name.escape_debug())),
            None => Ok(names),
        }
    }

    /// No function may reach itself by calls: it has no stack for that. Takes away what calls nothing until nothing is left.
    fn no_recursion(&self) -> Result<(), String> {
        let index: HashMap<&str, usize> =
            self.functions.iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
        let callees: Vec<HashSet<usize>> = self.functions.iter().map(|f| callees(f, &index)).collect();
        let mut callers = vec![Vec::new(); callees.len()];
        for (caller, callees) in callees.iter().enumerate() {
            callees.iter().for_each(|&callee| callers[callee].push(caller));
        }
        let mut open: Vec<usize> = callees.iter().map(HashSet::len).collect();
        let mut done: Vec<usize> = (0..open.len()).filter(|&f| open[f] == 0).collect();
        let mut next = 0;
        while let Some(&function) = done.get(next) {
            next += 1;
            for &caller in &callers[function] {
                open[caller] -= 1;
                if open[caller] == 0 {
                    done.push(caller);
                }
            }
        }
        match open.iter().position(|&count| count > 0) {
            Some(function) => Err(format!("`{}` calls itself, or who does", self.functions[function].name)),
            None => Ok(()),
        }
    }

    fn constants(&self, names: &HashMap<&str, Symbol>) -> Result<(), String> {
        let mut total = self.data.size;
        for constant in &self.constants {
            let wrong = |what: &str| Err(format!("the constant `{}` {what}", constant.name));
            total = total.saturating_add(constant.size);
            if constant.bytes.len() as u64 > constant.size {
                return wrong("has more bytes than its size says");
            }
            if !is_alignment(constant.align) || constant.align > MAX_ALIGNMENT {
                return wrong("has an alignment that can't be kept");
            }
            let mut end = 0;
            for pointer in &constant.pointers {
                if !names.get(&*pointer.target).is_some_and(|symbol| matches!(symbol, Symbol::Constant)) {
                    return wrong("points to what is no constant");
                }
                if pointer.at < end || pointer.at.checked_add(8).is_none_or(|end| end > constant.size) {
                    return wrong("has pointers that overlap or don't fit");
                }
                end = pointer.at + 8;
            }
        }
        if total > MAX_PROGRAM_DATA {
            return Err(format!("there are {total} bytes of constants and variables"));
        }
        Ok(())
    }
}

/// What a name stands for.
enum Symbol<'m> {
    Kernel,
    Function(&'m Function),
    Constant,
}

/// Whether a name can stand in quotes as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.$-".contains(&b))
}

fn callees(function: &Function, index: &HashMap<&str, usize>) -> HashSet<usize> {
    let insts = function.blocks.iter().flat_map(|block| &block.insts);
    let names = insts.filter_map(|&inst| match function.op(inst) {
        Op::Call { function, .. } => index.get(&**function).copied(),
        _ => None,
    });
    names.collect()
}

/// One function as a part of its module.
struct Checker<'m> {
    function: &'m Function,
    names: &'m HashMap<&'m str, Symbol<'m>>,
    has_data: bool,
    /// Whether there is a linear memory.
    is_linear: bool,
}

impl Checker<'_> {
    fn check(&self) -> Result<(), String> {
        for block in &self.function.blocks {
            if matches!(block.terminator, Terminator::Exit(_)) {
                return Err("a region's exit stands outside of a region".into());
            }
            block.insts.iter().try_for_each(|&inst| {
                self.inst(inst).map_err(|error| format!("{error} in `{}`", self.function.inst_text(inst)))
            })?;
        }
        Ok(())
    }

    fn inst(&self, inst: Inst) -> Result<(), String> {
        match self.function.op(inst) {
            Op::Call { function, arguments, .. } => {
                let Some(Symbol::Function(callee)) = self.names.get(&**function) else {
                    return Err("there is no such function".into());
                };
                let given = arguments.iter().map(|&argument| self.function.ty(argument));
                // The callee's own tables may not have been checked yet.
                let wanted = callee.params.iter().map(|param| callee.type_of(param.value));
                let Signature::Function { result } = &callee.signature else { return Ok(()) };
                let yields: Option<&Type> = self.function.result(inst).map(|value| self.function.ty(value));
                if given.map(Some).eq(wanted) && yields == result.as_ref() {
                    return Ok(());
                }
                Err("the function has another signature".into())
            }
            Op::GlobalAddress(name) if &**name == DATA_SYMBOL => {
                if self.has_data {
                    Ok(())
                } else {
                    Err("there is no block of variables".into())
                }
            }
            Op::GlobalAddress(name) if &**name == MEMORY_SYMBOL && self.is_linear => Ok(()),
            Op::GlobalAddress(name) => match self.names.get(&**name) {
                Some(Symbol::Constant) => Ok(()),
                _ => Err("there is no such constant".into()),
            },
            Op::ContextLoad(_)
            | Op::ContextStore(..)
            | Op::ContextScan { .. }
            | Op::ContextAddress(_)
            | Op::SetExit(_) => Err("a region's operation stands outside of a region".into()),
            _ => Ok(()),
        }
    }
}

/// The block of variables.
fn data(data: &ProgramData) -> Result<(), String> {
    if data.size == 0 && data.image.is_empty() && data.pointers.is_empty() {
        return Ok(());
    }
    if !data.align.is_power_of_two() || data.align > MAX_ALIGNMENT {
        return Err(format!("it is aligned to {}", data.align));
    }
    if data.image.len() as u64 > data.size || data.size > MAX_PROGRAM_DATA {
        return Err(format!("it has {} bytes, {} of them given", data.size, data.image.len()));
    }
    if data.variables > data.size {
        return Err(format!("{} of its {} bytes change", data.variables, data.size));
    }
    let mut end = 0;
    for &(at, target) in &data.pointers {
        let bytes = u64::from(data.addresses.bytes());
        if at < end || at.checked_add(bytes).is_none_or(|end| end > data.size) || target > data.size {
            return Err("a pointer overlaps another one, or isn't inside".into());
        }
        end = at + bytes;
    }
    Ok(())
}
