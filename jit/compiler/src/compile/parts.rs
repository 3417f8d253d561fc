//! The end of a build: the kernels are shared out among threads, each of which makes an object of its share, by its tier.

use super::fault;
use super::trace::Dump;
use crate::back::cranelift;
use crate::back::llvm::Text;
use crate::codegen::{self, Effort};
use crate::large_stack;
use crate::llvm::{self, Session};
use inkwell::targets::TargetMachine;
use spirula_interface::inputs::Inputs;
use spirula_interface::options::CompileError;
use spirula_interface::target::Target;
use spirula_interface::tier::Tier;
use spirula_kir::analysis::{ControlFlow, LoopId, Loops};
use spirula_kir::{Function, Module, Op, Type};
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Instructions of work-group functions that are worth a thread: its own LLVM context costs a millisecond or two.
const MIN_SHARE: usize = 200;

/// The same in the baseline, which takes a tenth of the time.
const MIN_BASELINE_SHARE: usize = 700;

/// What all objects of a build have in common.
#[derive(Clone, Copy)]
struct Common<'m> {
    /// The first lines of a text for LLVM.
    header: &'m str,
    inputs: &'m Inputs,
    dump: Dump<'m>,
}

/// Code, and what went wrong before it was there.
pub struct Object {
    pub bytes: Vec<u8>,
    pub warning: Option<String>,
}

/// Kernels of one tier, for one thread.
struct Share<'m> {
    tier: Tier,
    module: &'m Module,
    kernels: Vec<&'m Function>,
}

impl Share<'_> {
    /// Whether debuggers are to be told of lines that the kernels know.
    fn tells_lines(&self, inputs: &Inputs) -> bool {
        inputs.settings.debug_info && self.kernels.iter().any(|kernel| kernel.declared_at().is_some())
    }
}

/// Objects that together define the kernels, which are lowered, of both tiers. What those call and refer to is in each object
/// that needs it.
pub fn objects(
    session: &Session,
    programs: &[(Tier, &Module)],
    (machine, inputs): (&TargetMachine, &Inputs),
    dump: Dump,
) -> Result<Vec<Object>, CompileError> {
    let header = &header(machine);
    let common = Common { header, inputs, dump };
    let shares = shares(programs, common);
    let Some((own, others)) = shares.split_first() else { return Ok(Vec::new()) };
    let elsewhere = |share: &Share| object_of_tier(&Session::new(), share, common);
    std::thread::scope(|scope| {
        let spawned: Vec<_> =
            others.iter().map(|share| (share, large_stack::spawn(scope, || elsewhere(share)))).collect();
        let mut objects = vec![object_of_tier(session, own, common)];
        objects.extend(spawned.into_iter().map(|(share, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => elsewhere(share), // No thread to be had.
        }));
        objects.into_iter().collect()
    })
}

/// The kernels by their tiers, in shares; one at least, for what stayed a call is compiled without kernels all the same.
fn shares<'m>(programs: &[(Tier, &'m Module)], common: Common) -> Vec<Share<'m>> {
    let are_none = programs.iter().all(|(_, module)| module.kernels.is_empty());
    let shares = programs.iter().flat_map(|&(tier, module)| {
        let kernels: Vec<(&Function, usize)> =
            module.kernels.iter().map(|kernel| (kernel, kernel.insts().count())).collect();
        let count = if common.dump.is_wanted() { 1 } else { threads(&kernels, tier, &common.inputs.target) };
        let wanted = !kernels.is_empty() || are_none && tier == Tier::Optimized;
        let shares = if wanted { share_out(&kernels, count) } else { Vec::new() };
        shares.into_iter().map(move |kernels| Share { tier, module, kernels })
    });
    shares.collect()
}

/// The object of some kernels, with what they use. The one place where the tiers' ways part.
fn object_of_tier(session: &Session, share: &Share, common: Common) -> Result<Object, CompileError> {
    let optimize = share.tier == Tier::Optimized && !common.inputs.options.optimization_disabled;
    let effort = match optimize {
        false => Effort::None,
        true if share.kernels.iter().any(|kernel| has_many_loops(kernel)) => Effort::Linear,
        true if share.kernels.iter().all(|kernel| is_of_vectors(kernel)) => Effort::Vectors,
        true => Effort::Full,
    };
    let warning = match share.tier {
        // Only LLVM tells of lines.
        Tier::Baseline if share.tells_lines(common.inputs) => None,
        Tier::Baseline => match by_cranelift(share, common) {
            Ok(bytes) => return Ok(Object { bytes, warning: None }),
            // A mistake of its own or of ours: LLVM takes the same Kernel IR.
            Err(why) => Some(format!("warning: the baseline was made by LLVM: {why}\n")),
        },
        Tier::Optimized => None,
    };
    Ok(Object { bytes: by_llvm(session, share, common, effort)?, warning })
}

/// Loops, and blocks in all loops together, of which a function has no more unless it is written to have them. Each takes a few
/// milliseconds at most; beyond, what is done for each loop looks at all others.
const MAX_LOOPS: usize = 256;
const MAX_LOOP_BLOCKS: usize = 1 << 14;

/// Whether what LLVM does for each loop would take most of a build.
fn has_many_loops(function: &Function) -> bool {
    // A loop has a block of its own at least.
    if function.blocks.len() <= MAX_LOOPS {
        return false;
    }
    let flow = ControlFlow::new(function);
    let Some(loops) = Loops::new(&flow) else { return false };
    let blocks = |number| loops.get(LoopId(number)).blocks.count_ones(..);
    loops.count() > MAX_LOOPS || (0..loops.count()).map(blocks).sum::<usize>() > MAX_LOOP_BLOCKS
}

/// Whether a function is made of vectors: a quarter of what it computes, for half may be the code for what is less than a pack. What only
/// takes lanes apart, moves them and puts them together again, as gathers of bytes do, says nothing of it.
fn is_of_vectors(function: &Function) -> bool {
    let (mut all, mut vectors) = (0_usize, 0_usize);
    let computed = function.insts().filter(|&inst| computes(function.op(inst)));
    for result in computed.filter_map(|inst| function.result(inst)) {
        all += 1;
        vectors += usize::from(matches!(function.ty(result), Type::Vector(..)));
    }
    4 * vectors >= all && all > 0
}

/// Whether an operation is one that packs are made for.
fn computes(op: &Op) -> bool {
    use Op::{Binary, Compare, Intrinsic, Select, Unary};
    matches!(op, Unary { .. } | Binary { .. } | Compare { .. } | Select { .. } | Intrinsic { .. })
}

/// By Cranelift. Errors: why not.
fn by_cranelift(share: &Share, common: Common) -> Result<Vec<u8>, String> {
    let generate = || cranelift::object(share.module, &share.kernels, common.inputs);
    match catch_unwind(AssertUnwindSafe(generate)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("Cranelift panicked".to_owned()),
    }
}

/// How many threads are to work on the kernels.
fn threads<T>(kernels: &[(T, usize)], tier: Tier, target: &Target) -> usize {
    let size: usize = kernels.iter().map(|(_, size)| size).sum();
    let worth = match tier {
        Tier::Baseline => MIN_BASELINE_SHARE,
        Tier::Optimized => MIN_SHARE,
    };
    (target.threads as usize).min(size / worth).max(1)
}

/// The kernels, which come with their sizes, in at most so many shares of like size, none of them empty unless there are
/// no kernels.
fn share_out<T: Copy>(kernels: &[(T, usize)], shares: usize) -> Vec<Vec<T>> {
    let mut sorted = kernels.to_vec();
    sorted.sort_by_key(|(_, size)| Reverse(*size));
    let mut list = vec![(0, Vec::new()); shares.min(kernels.len()).max(1)];
    for (kernel, kernel_size) in sorted {
        if let Some((size, share)) = list.iter_mut().min_by_key(|(size, _)| *size) {
            *size += kernel_size;
            share.push(kernel);
        }
    }
    list.into_iter().map(|(_, share)| share).collect()
}

/// By LLVM.
fn by_llvm(
    session: &Session,
    Share { module, kernels, .. }: &Share,
    Common { header, inputs, dump }: Common,
    effort: Effort,
) -> Result<Vec<u8>, CompileError> {
    let used = module.reached(kernels.iter().copied());
    let mut text = Text::new(inputs.settings.debug_info);
    module
        .constants
        .iter()
        .filter(|c| used.contains(&*c.name))
        .for_each(|constant| text.add_constant(constant));
    module
        .functions
        .iter()
        .filter(|f| used.contains(f.name.as_str()))
        .for_each(|function| text.add(function));
    kernels.iter().for_each(|kernel| text.add(kernel));
    let text = [header, &text.finish()].concat();
    dump.write("emitted.ll", || text.clone());
    let mut parsed =
        llvm::parse_text(session, &text).map_err(|error| fault("the text of an object", &error))?;
    let symbols: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let show = |module: &llvm::Module| {
        if dump.is_wanted() {
            let text = llvm::print_text(module);
            let assembly = codegen::assembly(&text, &inputs.target, effort);
            dump.write("code.s", || assembly.unwrap_or_else(|error| format!("# {error}\n")));
            dump.write("optimized.ll", || text);
        }
    };
    let how = (effort, inputs.options.addresses);
    let object = codegen::generate(session, &mut parsed, &symbols, &inputs.target, how, show)
        .map_err(|error| CompileError::Failed(format!("error: {error}\n")))?;
    Ok(object)
}

/// The first lines of a text.
fn header(machine: &TargetMachine) -> String {
    let (layout, triple) = (machine.get_target_data().get_data_layout(), machine.get_triple());
    let (layout, triple) = (layout.as_str().to_string_lossy(), triple.as_str().to_string_lossy());
    format!("target datalayout = {layout:?}\ntarget triple = {triple:?}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_kir::{Block, Target, Terminator};

    /// So many loops, one behind the other or in the other, of one block and a latch each.
    fn loops(count: usize, nested: bool) -> Function {
        let mut function = Function::callable("k", None);
        let blocks: Vec<[Block; 2]> =
            (0..count).map(|_| [function.add_block(), function.add_block()]).collect();
        let (condition, end) = (function.int(Type::BOOL, 1), function.add_block());
        function.set_terminator(end, Terminator::Return(None));
        for (number, &[header, latch]) in blocks.iter().enumerate() {
            let inner = blocks.get(number + 1).map(|[header, _]| *header);
            let outer = number.checked_sub(1).map(|outer| blocks[outer][1]);
            let (first, behind) = match nested {
                true => (inner.unwrap_or(latch), outer.unwrap_or(end)),
                false => (latch, inner.unwrap_or(end)),
            };
            function.jump(header, first);
            let (then, otherwise) = (Target::to(header), Target::to(behind));
            function.set_terminator(latch, Terminator::Branch { condition, then, otherwise });
        }
        function
    }

    /// Vectors are taken apart before Cranelift sees a kernel; these are left, as a mistake of ours would leave something.
    #[test]
    fn what_cranelift_refuses_llvm_takes_with_a_warning() {
        let kernel = |ty: &str| {
            let text = format!(
                "function \"k\"(%0: ptr(generic) noalias nonnull align 128) {{
b0:
  %1: {ty} = load %0, align 8
  %2: {ty} = add %1, %1
  store %0, %2, align 8
  return
}}"
            );
            spirula_kir::parse(&text).unwrap()
        };
        let made = |ty: &str| {
            let module = Module { kernels: vec![kernel(ty)], ..Module::default() };
            let inputs = crate::host_inputs();
            let (session, machine) = (Session::new(), llvm::machine(&inputs.target, true).unwrap());
            let programs = [(Tier::Baseline, &module)];
            let mut objects =
                super::objects(&session, &programs, (&machine, &inputs), Dump::default()).unwrap();
            assert_eq!(objects.len(), 1);
            objects.remove(0)
        };
        let object = made("<2 x i32>");
        let warning = object.warning.expect("it is told");
        assert!(warning.starts_with("warning: the baseline was made by LLVM: "), "{warning}");
        assert!(object.bytes.starts_with(b"\x7fELF"));
        assert_eq!(made("i64").warning, None);
    }

    #[test]
    fn packs_are_of_vectors() {
        let kernel = |vector: bool| {
            let ty = if vector { "<16 x i32>" } else { "i32" };
            let text = format!(
                "function \"k\"(%0: ptr(generic) noalias nonnull align 128) {{
b0:
  %1: {ty} = load %0, align 4
  %2: i32 = load %0, align 4
  %5: {ty} = xor %1, %1
  %3: i32 = add %2, %2
  %4: i32 = add %3, %2
  store %0, %4, align 4
  store %0, %5, align 4
  return
}}"
            );
            spirula_kir::parse(&text).unwrap()
        };
        assert!(is_of_vectors(&kernel(true)) && !is_of_vectors(&kernel(false)));
    }

    #[test]
    fn only_very_many_loops_are_many() {
        assert!(!has_many_loops(&loops(200, false)) && has_many_loops(&loops(300, false)));
        assert!(!has_many_loops(&loops(100, true)) && has_many_loops(&loops(200, true)));
    }

    #[test]
    fn shares_are_of_like_size() {
        let kernels: Vec<(usize, usize)> = [1, 50, 2, 30, 3, 20].map(|size| (size, size)).into();
        assert_eq!(share_out(&kernels, 2), [[50, 3].as_slice(), &[30, 20, 2, 1]]);
        assert_eq!(share_out(&kernels, 1), [[50, 30, 20, 3, 2, 1]]);
        assert_eq!(share_out(&kernels, 100).len(), 6);
        assert_eq!(share_out::<usize>(&[], 4).len(), 1, "what stayed a call is compiled all the same");
    }
}
