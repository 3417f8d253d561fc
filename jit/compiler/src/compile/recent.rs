//! What the front made of the last programs: optimized code of their kernels is asked for later, one by one, and begins there.

use crate::compile::known_formats;
use crate::front::Imported;
use spirula_interface::check::Checks;
use spirula_interface::image_formats::ImageFormats;
use spirula_interface::inputs::Inputs;
use spirula_interface::options::CompileOptions;
use spirula_interface::target::Target;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Instructions, and bytes of constants, that are kept altogether. Modules count by what the front left of them: hashcat's, of which
/// kernels use a tenth, have three megabytes.
const MOST: usize = 300_000;

static PROGRAMS: Mutex<VecDeque<Program>> = Mutex::new(VecDeque::new());

/// All that the front depends on, and what it made of it.
struct Program {
    modules: Fingerprint,
    options: CompileOptions,
    target: Target,
    /// Checks, and whether lines are known.
    settings: (Checks, bool),
    /// The kernel whose images' formats were known, and they.
    formats: Option<(String, ImageFormats)>,
    imported: Arc<Imported>,
    size: usize,
}

impl Program {
    fn is_of(&self, modules: Fingerprint, inputs: &Inputs) -> bool {
        let wanted = inputs.options.specialization.as_ref().map(|wanted| wanted.kernel.as_str());
        let has_all = self.imported.only.as_deref().is_none_or(|only| Some(only) == wanted);
        has_all
            && self.modules == modules
            && self.options == general(&inputs.options)
            && self.target == inputs.target
            && self.settings == front_settings(inputs)
            && self.formats == formats(inputs)
    }
}

/// What stands for modules: nobody finds others that have the same.
type Fingerprint = blake3::Hash;

fn fingerprint(modules: &[&[u8]]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    for module in modules {
        hasher.update(&(module.len() as u64).to_le_bytes()).update(module);
    }
    hasher.finalize()
}

/// The settings that change what the front makes.
fn front_settings(inputs: &Inputs) -> (Checks, bool) {
    (inputs.settings.checks, inputs.settings.debug_info)
}

fn formats(inputs: &Inputs) -> Option<(String, ImageFormats)> {
    known_formats(inputs).map(|known| (known.kernel.to_owned(), known.formats))
}

/// The options of the whole program, of which code for one kernel is made.
fn general(options: &CompileOptions) -> CompileOptions {
    CompileOptions { specialization: None, ..options.clone() }
}

/// What was made of a program.
pub fn find(modules: &[&[u8]], inputs: &Inputs) -> Option<Arc<Imported>> {
    let modules = fingerprint(modules);
    let programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.iter().find(|program| program.is_of(modules, inputs)).map(|program| program.imported.clone())
}

/// Keeps what was made of a program, unless optimized code is made of something else; the oldest ones make room.
pub fn keep(modules: &[&[u8]], inputs: &Inputs, imported: &Arc<Imported>) {
    let size = size(imported);
    if !imported.is_whole() || size > MOST {
        return;
    }
    let modules = fingerprint(modules);
    let program = Program {
        modules,
        options: general(&inputs.options),
        target: inputs.target.clone(),
        settings: front_settings(inputs),
        formats: formats(inputs),
        imported: imported.clone(),
        size,
    };
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.retain(|program| !program.is_of(modules, inputs));
    programs.push_front(program);
    let mut total = 0;
    let fitting = programs.iter().take_while(|program| {
        total += program.size;
        total <= MOST
    });
    let fitting = fitting.count();
    programs.truncate(fitting);
}

fn size(Imported { module, .. }: &Imported) -> usize {
    let functions = module.kernels.iter().chain(&module.functions);
    let constants = module.constants.iter().map(|constant| constant.bytes.len());
    functions.map(|function| function.insts().count()).chain(constants).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_interface::options::{Groups, Specialization};
    use spirula_interface::tier::Tier;
    use spirula_kir::{ConstantData, Module};

    fn constant() -> ConstantData {
        ConstantData { name: "c".into(), align: 1, size: 1, bytes: Vec::new(), pointers: Vec::new() }
    }

    #[test]
    fn only_the_same_program_is_found() {
        let target = |cpu: &str| Target { cpu: cpu.into(), ..Target::default() };
        let inputs = |options, cpu| Inputs::new(options, Default::default(), target(cpu), Tier::Baseline);
        let plain = inputs(CompileOptions::default(), "of the test");
        let module: &[&[u8]] = &[b"a module of the test"];
        assert!(find(module, &plain).is_none());
        keep(module, &plain, &Arc::new(Imported::default()));
        assert!(find(module, &plain).is_some());
        let specialization = Some(Specialization { kernel: "k".into(), groups: Groups::Any, lanes: None });
        let of_kernel = CompileOptions { specialization, ..CompileOptions::default() };
        let of_kernel = inputs(of_kernel, "of the test");
        assert!(find(module, &of_kernel).is_some(), "code for one kernel begins there");
        let large: &[&[u8]] = &[b"of which one kernel was read"];
        let only = |kernel: &str| Imported { only: Some(kernel.into()), ..Imported::default() };
        keep(large, &of_kernel, &Arc::new(only("another")));
        assert!(find(large, &of_kernel).is_none());
        keep(large, &of_kernel, &Arc::new(only("k")));
        assert!(find(large, &of_kernel).is_some());
        assert!(find(large, &plain).is_none(), "all kernels are wanted");
        let unoptimized = CompileOptions { optimization_disabled: true, ..CompileOptions::default() };
        assert!(find(module, &inputs(unoptimized, "of the test")).is_none());
        assert!(find(module, &inputs(CompileOptions::default(), "another")).is_none());
        assert!(find(&[b"another"], &plain).is_none());
        // A module is as large as what is left of it.
        let large = vec![0; MOST + 1];
        keep(&[&large], &plain, &Arc::new(Imported::default()));
        assert!(find(&[&large], &plain).is_some());
        let bytes = ConstantData { bytes: large, ..constant() };
        let imported = Imported {
            module: Module { constants: vec![bytes], ..Module::default() },
            ..Imported::default()
        };
        keep(&[b"with a large constant"], &plain, &Arc::new(imported));
        assert!(find(&[b"with a large constant"], &plain).is_none());
    }
}
