//! From SPIR bytes to Kernel IR, one stage a file, in this order:
//!
//! bytes -> `read` -> `check` -> `memory_orders` -> `opaque` -> `variables` -> `link::join` -> `metadata` -> [`SpirModule`] -> `harden` -> [`HardenedModule`]
//! -> `printf` -> `link` (the builtins) -> [`LinkedModule`] -> `cleanup` -> [`CleanModule`] -> `import` -> [`Imported`]
//!
//! LLVM's C API is touched in `crate::llvm` only.

mod array_loops;
mod beyond_arrays;
mod blocks;
mod call_graph;
mod check;
mod checked;
mod cleanup;
mod constants;
mod container;
mod contraction;
mod element_calls;
mod frames;
mod harden;
mod image_formats;
mod import;
mod index_products;
mod inlining;
mod intrinsics;
mod lane_calls;
mod limits;
mod link;
mod loop_calls;
mod memory_copies;
mod memory_orders;
mod metadata;
mod opaque;
mod pairs;
mod postponed;
mod printf;
mod private_arrays;
mod read;
mod recorded_options;
mod short_loops;
#[cfg(test)]
pub(crate) mod testing;
mod undefined;
mod unrolled_sizes;
mod variables;

use crate::llvm::{self, Module, Session};
pub use checked::functions as check_functions;
pub use cleanup::{Effort, clean_up};
pub use harden::harden;
pub use image_formats::KnownFormats;
pub use import::{Imported, import};
pub use link::link;
use spirula_interface::check::Checks;
use spirula_interface::options::{CompileError, CompileOptions, MathOptions};
use spirula_interface::program::KernelSignature;
use spirula_interface::settings::Settings;

/// One or more SPIR modules joined, checked, and the kernels' metadata taken out.
#[derive(Debug)]
pub struct SpirModule<'s> {
    /// Still SPIR: triple, calling conventions, undefined builtins.
    pub module: Module<'s>,
    /// In the order of the metadata.
    pub kernels: Vec<KernelSignature>,
    /// The options given, and those that all modules were compiled with.
    pub math: MathOptions,
    /// Whether the options or a module say `-g`.
    pub is_debug: bool,
    /// What is to be looked for in its kernels while they run.
    pub checks: Checks,
}

/// SPIR's meaning made explicit: LLVM passes may run from here on.
#[derive(Debug)]
pub struct HardenedModule<'s> {
    pub(crate) module: Module<'s>,
    pub(crate) kernels: Vec<KernelSignature>,
    pub(crate) math: MathOptions,
    pub(crate) is_debug: bool,
    pub(crate) checks: Checks,
}

/// Nothing is undefined but intrinsics and the work-item primitives, `spirula.*`.
#[derive(Debug)]
pub struct LinkedModule<'s> {
    pub(crate) module: Module<'s>,
    pub(crate) kernels: Vec<KernelSignature>,
    pub(crate) checks: Checks,
}

/// Inlined and simplified.
#[derive(Debug)]
pub struct CleanModule<'s> {
    pub(crate) module: Module<'s>,
    pub(crate) kernels: Vec<KernelSignature>,
    pub(crate) checks: Checks,
    /// For each kernel the instructions that full effort would add, about; none for any if it would yield the same.
    pub(crate) left_out: Vec<u64>,
}

impl CleanModule<'_> {
    /// The module as LLVM assembly, to look at.
    pub fn text(&self) -> String {
        crate::llvm::print_text(&self.module)
    }
}

/// Reads, checks and joins modules. The joined module is SPIR again: `write_bitcode` makes a library of it.
/// Errors: `InvalidBinary` for what isn't this device's SPIR, `Failed` with the log for broken rules.
pub fn read_modules<'s>(
    session: &'s Session,
    modules: &[&[u8]],
    options: &CompileOptions,
) -> Result<SpirModule<'s>, CompileError> {
    read_modules_with(session, modules, options, &Settings::default())
}

/// The same under settings: who is to be told of the source's lines gets modules that still have them.
pub fn read_modules_with<'s>(
    session: &'s Session,
    modules: &[&[u8]],
    options: &CompileOptions,
    settings: &Settings,
) -> Result<SpirModule<'s>, CompileError> {
    let list: Result<Vec<_>, _> =
        modules.iter().map(|bytes| own(session, read::read(session, bytes)?, options, settings)).collect();
    whole(session, list?, options, settings)
}

/// Reads of a program of one module only what a kernel needs. None where kernels have something in common that is laid out for all of them
/// together, as all constants are where pointers have 32 bits, or the module is no bitcode.
pub fn read_kernel<'s>(
    session: &'s Session,
    modules: &[&[u8]],
    kernel: &str,
    options: &CompileOptions,
    settings: &Settings,
) -> Result<Option<SpirModule<'s>>, CompileError> {
    let [bytes] = modules else { return Ok(None) };
    if options.addresses.is_linear() {
        return Ok(None);
    }
    let Some(module) = read::read_kernel(session, bytes, kernel)? else { return Ok(None) };
    whole(session, vec![own(session, module, options, settings)?], options, settings).map(Some)
}

/// A module that was read, checked, in the forms that the stages behind know.
fn own<'s>(
    session: &'s Session,
    mut module: Module<'s>,
    options: &CompileOptions,
    settings: &Settings,
) -> Result<Module<'s>, CompileError> {
    check::check(&module, options)?;
    llvm::complete_layout(&mut module, options.addresses);
    if !settings.checks.any() && !settings.debug_info {
        // The findings' lines were its only use.
        module.strip_debug_info();
    }
    contraction::allow(&mut module);
    memory_orders::tell_apart(&mut module);
    let mut module = opaque::replace(session, module)?;
    variables::replace(session, &mut module)?;
    Ok(module)
}

/// A program of such modules.
fn whole<'s>(
    session: &'s Session,
    mut list: Vec<Module<'s>>,
    options: &CompileOptions,
    settings: &Settings,
) -> Result<SpirModule<'s>, CompileError> {
    let several = list.len() > 1;
    let compiled_with = recorded_options::common(&mut list);
    let module = link::join(session, list)?;
    if several {
        check::check(&module, options)?; // Recursion and signatures across modules.
    }
    let math = options.math | compiled_with;
    let denormals_are_zero = math.flushes_denormals();
    let kernels = metadata::kernels(&module)?.into_iter();
    // OpenCL C has known smaller groups at the ends of an NDRange since 2.0.
    let remainder_groups = !options.uniform_groups
        && !recorded_options::any_says(&module, "cl-uniform-work-group-size")
        && check::language(&module) >= (2, 0);
    let kernels =
        kernels.map(|kernel| KernelSignature { denormals_are_zero, remainder_groups, ..kernel }).collect();
    let is_debug = options.debug || recorded_options::any_says(&module, "g");
    Ok(SpirModule { module, kernels, math, is_debug, checks: settings.checks })
}

/// All that can be said of a module against SPIR's rules, remarks included, a line each, and whether it would be taken.
pub fn report(bytes: &[u8], options: &CompileOptions) -> (String, bool) {
    let session = Session::new();
    let found = read::read(&session, bytes).and_then(|module| check::with_remarks(&module, options));
    // What the later stages of the front find out is said as well.
    let (remarks, result) = match found {
        Ok((remarks, Ok(()))) => {
            let session = Session::new();
            (remarks, read_modules(&session, &[bytes], options).map(drop))
        }
        Ok((remarks, failed)) => (remarks, failed),
        Err(error) => (String::new(), Err(error)),
    };
    match result {
        Ok(()) => (remarks, true),
        Err(CompileError::Failed(log)) => (format!("{log}{remarks}"), false),
        Err(error) => (format!("error: {error}\n"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkwell::targets::TargetMachine;
    use spirula_interface::address_bits::AddressBits;

    /// All stages behind `read_modules`.
    fn lower<'s>(
        session: &'s Session,
        spir: SpirModule<'s>,
        machine: &TargetMachine,
        options: &CompileOptions,
    ) -> Result<Imported, CompileError> {
        let hardened = harden(spir, machine);
        let linked = link(session, hardened, machine)?;
        let effort = if options.optimization_disabled { Effort::Least } else { Effort::Full };
        let clean = clean_up(linked, machine, effort, None)?;
        import(clean)
    }

    /// All stages over every fixture: it must import, and verify.
    #[test]
    fn every_fixture_becomes_kernel_ir() {
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let optimizations = [false, true]
            .map(|disabled| CompileOptions { optimization_disabled: disabled, ..CompileOptions::default() });
        let mut fixtures = testing::fixtures();
        fixtures.retain(|(name, _)| !name.ends_with("/unresolved.bc64"));
        for ((name, bytes), options) in
            fixtures.iter().flat_map(|f| optimizations.iter().map(move |o| (f, o)))
        {
            let session = Session::new();
            // Half a program with the other half.
            let library = name.strip_suffix("_main.bc64").map(|stem| format!("{stem}_lib.bc64"));
            let library = fixtures.iter().find(|(name, _)| Some(name) == library.as_ref());
            let modules: Vec<&[u8]> =
                [bytes].into_iter().chain(library.map(|(_, bytes)| bytes)).map(Vec::as_slice).collect();
            let spir = read_modules(&session, &modules, options).unwrap_or_else(|e| panic!("{name}: {e}"));
            let imported = lower(&session, spir, &machine, options).unwrap_or_else(|e| panic!("{name}: {e}"));
            let module = imported.module;
            module.verify().unwrap_or_else(|e| panic!("{name}: {e}\n{module}"));
            let text = module.to_string();
            spirula_kir::parse_module(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{module}"));
            let read = spirula_kir::Module::from_bytes(&module.to_bytes());
            let read = read.unwrap_or_else(|e| panic!("{name}: {e}\n{module}"));
            assert_eq!(read.to_string(), text, "{name}");
        }
    }

    /// Two kernels, what they call, and constants and local memory of each.
    const TWO_KERNELS: &str = "
        @table = internal addrspace(2) constant [2 x i32] [i32 5, i32 6]
        @other.table = addrspace(2) constant [2 x i32] [i32 7, i32 8]
        @k.local = internal addrspace(3) global [4 x i32] undef
        @other.local = internal addrspace(3) global [9 x i32] undef
        declare spir_func i64 @_Z13get_global_idj(i32)
        define spir_func i32 @both(i32 %x) {
         %y = mul i32 %x, 3
         ret i32 %y
        }
        define internal spir_func i32 @own(i64 %i) {
         %p = getelementptr [2 x i32], ptr addrspace(2) @table, i64 0, i64 %i
         %x = load i32, ptr addrspace(2) %p
         %y = call spir_func i32 @both(i32 %x)
         ret i32 %y
        }
        define spir_kernel void @k(ptr addrspace(1) %p) {
         %i = call spir_func i64 @_Z13get_global_idj(i32 0)
         %x = call spir_func i32 @own(i64 %i)
         store i32 %x, ptr addrspace(3) @k.local
         store i32 %x, ptr addrspace(1) %p
         ret void
        }
        define spir_kernel void @other(ptr addrspace(1) %p) {
         %q = getelementptr i8, ptr addrspace(2) @other.table, i64 4
         %x = load i32, ptr addrspace(2) %q
         %y = call spir_func i32 @both(i32 %x)
         store i32 %y, ptr addrspace(3) @other.local
         store i32 %y, ptr addrspace(1) %p
         ret void
        }
";

    #[test]
    fn a_kernel_that_was_read_alone_is_the_same() {
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let (options, settings) = (CompileOptions::default(), Settings::default());
        let mut modules = vec![("two kernels".to_owned(), testing::bitcode(TWO_KERNELS))];
        modules
            .extend(testing::fixtures().into_iter().filter(|(name, _)| !name.ends_with("/unresolved.bc64")));
        let mut alone = 0;
        for (name, bytes) in modules {
            let session = Session::new();
            let Ok(spir) = read_modules(&session, &[&bytes], &options) else { continue };
            let Ok(whole) = lower(&session, spir, &machine, &options) else { continue };
            for (signature, body) in whole.kernels.iter().zip(&whole.module.kernels) {
                let kernel = &signature.name;
                let session = Session::new();
                let read = read_kernel(&session, &[&bytes], kernel, &options, &settings);
                let Some(spir) = read.unwrap_or_else(|e| panic!("{name}, {kernel}: {e}")) else { continue };
                let one = lower(&session, spir, &machine, &options).unwrap();
                assert_eq!(one.kernels, std::slice::from_ref(signature), "{name}");
                assert_eq!(one.module.data, whole.module.data, "{name}, {kernel}");
                let has = |bytes: &[u8]| whole.module.constants.iter().any(|all| all.bytes == bytes);
                let of_whole = one.module.constants.iter().all(|constant| has(&constant.bytes));
                assert!(of_whole, "{name}, {kernel}");
                let count = |body: &spirula_kir::Function| body.insts().count();
                assert_eq!(count(&one.module.kernels[0]), count(body), "{name}, {kernel}");
                alone += 1;
            }
        }
        assert!(alone >= 2);
    }

    #[test]
    fn what_belongs_to_all_kernels_has_them_read_together() {
        let settings = Settings::default();
        let read = |more: &str, kernel: &str, options: &CompileOptions| {
            let session = Session::new();
            let bytes = testing::bitcode(&format!("{TWO_KERNELS}{more}"));
            read_kernel(&session, &[&bytes], kernel, options, &settings).unwrap().is_some()
        };
        let plain = CompileOptions::default();
        assert!(read("", "k", &plain));
        assert!(!read("", "absent", &plain));
        for shared in [
            "@variable = addrspace(1) global i32 0",
            "declare spir_func i32 @printf(ptr addrspace(2), ...)",
            "declare ptr @spir_block_bind(ptr, i32, i32, ptr)",
            "!opencl.kernels = !{!0}\n!0 = !{ptr @k}",
        ] {
            assert!(!read(shared, "k", &plain), "{shared}");
        }
        let linear = CompileOptions { addresses: AddressBits::Bits32, ..plain };
        assert!(!read("", "k", &linear));
    }

    /// What a kernel becomes that calls this function with a generic pointer `%q` and other values.
    fn calling(result: &str, name: &str, types: &str, values: &str) -> String {
        let text = format!(
            "declare spir_func {result} @{name}({types})\ndefine spir_kernel void @k(ptr addrspace(1) %p) {{
             %q = addrspacecast ptr addrspace(1) %p to ptr addrspace(4)
             call spir_func {result} @{name}({values})\n ret void\n}}"
        );
        let session = Session::new();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let options = CompileOptions::default();
        let spir = read_modules(&session, &[&testing::bitcode(&text)], &options).unwrap();
        lower(&session, spir, &machine, &options).unwrap().module.to_string()
    }

    /// SPIR-V's calls are decided by their constants: what is left is what OpenCL C's functions leave.
    #[test]
    fn spirv_in_llvm_ir_is_as_opencl_c() {
        let text = "@__spirv_BuiltInLocalInvocationId = external addrspace(1) constant <3 x i64>
            declare spir_func i64 @_Z33__spirv_BuiltInGlobalInvocationIdi(i32)
            declare spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1), i32, i32, i32)
            declare spir_func void @_Z22__spirv_ControlBarrieriii(i32, i32, i32)
            declare spir_func i32 @_Z17__spirv_ocl_u_maxjj(i32, i32)
            declare spir_func i32 @_Z17__spirv_GroupIAddiii(i32, i32, i32)
            define spir_kernel void @k(ptr addrspace(1) %p) {
             %x = call spir_func i64 @_Z33__spirv_BuiltInGlobalInvocationIdi(i32 0)
             %id = load <3 x i64>, ptr addrspace(1) @__spirv_BuiltInLocalInvocationId
             %y = extractelement <3 x i64> %id, i32 1\n %a = trunc i64 %x to i32\n %b = trunc i64 %y to i32
             %c = call spir_func i32 @_Z17__spirv_ocl_u_maxjj(i32 %a, i32 %b)
             %d = call spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1) %p, i32 1, i32 8, i32 %c)
             call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
             %e = call spir_func i32 @_Z17__spirv_GroupIAddiii(i32 2, i32 0, i32 %d)
             store i32 %e, ptr addrspace(1) %p\n ret void\n}";
        let (session, options) = (Session::new(), CompileOptions::default());
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let spir = read_modules(&session, &[&testing::bitcode(text)], &options).unwrap();
        let imported = lower(&session, spir, &machine, &options).unwrap().module.to_string();
        for part in ["global_id", "local_id", "umax", " acq_rel", "barrier", "group_reduce"] {
            assert!(imported.contains(part), "{part}: {imported}");
        }
        // No way for another order, scope or operation is left.
        for other in ["sub_group", "seq_cst", "scan", "switch"] {
            assert!(!imported.contains(other), "{other}: {imported}");
        }
    }

    #[test]
    fn orders_are_kept_as_written_by_either_producer() {
        // SPIR's number, C11's, and the orders of a change, a load, a store, and an exchange's failure.
        let orders = [
            (0, 0, ["monotonic", "monotonic", "monotonic", "monotonic"]),
            (1, 2, ["acquire", "acquire", "seq_cst", "acquire"]),
            (2, 3, ["release", "seq_cst", "release", "seq_cst"]),
            (3, 4, ["acq_rel", "seq_cst", "seq_cst", "seq_cst"]),
            (4, 5, ["seq_cst", "seq_cst", "seq_cst", "seq_cst"]),
        ];
        let pointer = "ptr addrspace(4)";
        for (spir, c11, [change, load, store, _]) in orders {
            for (number, is_c11, object, generic) in
                [(spir, false, "PVU3AS4U7_Atomici", "PU3AS4i"), (c11, true, "PU3AS4VU7_Atomici", "PU3AS4i")]
            {
                let check = |order: &str,
                             result: &str,
                             name: &str,
                             (types, mangled, values): (&str, &str, &str),
                             failure: u32| {
                    let name = format!("_Z{}{name}{object}{mangled}12memory_order", name.len());
                    let two = name.contains("compare");
                    let (name, again) = if two {
                        (format!("{name}S4_12memory_scope"), format!(", i32 {failure}, i32 2"))
                    } else {
                        (format!("{name}12memory_scope"), ", i32 2".to_string())
                    };
                    let types = format!("{pointer}{types}, i32, i32{}", if two { ", i32" } else { "" });
                    let text =
                        calling(result, &name, &types, &format!("{pointer} %q{values}, i32 {number}{again}"));
                    assert!(text.contains(&format!(" {order} ")), "{number} {name}: {text}");
                };
                let operand = (", i32", "i", ", i32 7");
                check(change, "i32", "atomic_fetch_add_explicit", operand, 0);
                check(load, "i32", "atomic_load_explicit", ("", "", ""), 0);
                check(store, "void", "atomic_store_explicit", operand, 0);
                let compared = (
                    &*format!(", {pointer}, i32"),
                    &*format!("{generic}i"),
                    &*format!(", {pointer} %q, i32 7"),
                );
                for (spir, c11, [.., failure]) in orders {
                    let pair = format!("{change} {failure}");
                    let number = if is_c11 { c11 } else { spir };
                    check(&pair, "i1", "atomic_compare_exchange_weak_explicit", compared, number);
                }
            }
        }
    }

    #[test]
    fn fences_within_a_work_group_cost_nothing() {
        let fence = |order: u32, scope: u32| {
            let name = "_Z22atomic_work_item_fencej12memory_order12memory_scope";
            let values = format!("i32 3, i32 {order}, i32 {scope}");
            let text = calling("void", name, "i32, i32, i32", &values);
            text.lines().find_map(|line| line.trim().strip_prefix("fence ")).unwrap_or("none").to_string()
        };
        // In C11's numbers: nothing says that the module is of another producer.
        assert_eq!(
            [0, 2, 3, 4, 5].map(|order| fence(order, 2)),
            ["none", "acquire", "release", "acq_rel", "seq_cst"]
        );
        assert_eq!(
            [0, 1, 2, 3, 4].map(|scope| fence(5, scope)),
            ["acq_rel", "acq_rel", "seq_cst", "seq_cst", "acq_rel"]
        );
    }
}
