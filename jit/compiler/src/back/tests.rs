//! Runs work-group functions made from textual Kernel IR and compares with what the kernels mean.

mod atomics;
mod generate;
mod interpret;
mod legalized;
mod widening;

use super::cranelift;
use super::llvm::Text;
use crate::codegen::{self, Effort};
use crate::llvm::{Session, parse_text};
use spirula_interface::program::{
    CompiledProgram, KernelCode, KernelInfo, KernelSignature, Launch, RawWorkGroupFn,
};
use spirula_interface::target::TargetFacts;
use spirula_kir::analysis::find_effects;
use spirula_kir::pipeline::{self, Lowered, Options};
use spirula_kir::transform::legalize::legalize;
use spirula_kir::transform::widen::{Callees, Tables};
use spirula_kir::{Function, Module, parse, parse_module, verify};
use spirula_service::LoadedProgram;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Stands for scalar code by Cranelift where numbers of lanes stand.
const BASELINE: u32 = 0;

/// Runs the kernel on `data` (argument 0; argument 1, if the kernel has it, is local memory behind the static part; argument 2 is the
/// number): with scalar code, and with packs of several widths and in the baseline, which must do the same. Groups run in two calls, to cover both
/// ends of a range.
fn run(text: &str, data: &mut [i32], local: u64, number: i32) {
    let before = data.to_vec();
    ready(text, 1).run(data, local, number);
    for lanes in [BASELINE, 2, 4, 16] {
        let mut wide = before.clone();
        ready(text, lanes).run(&mut wide, local, number);
        assert_eq!(wide, data, "{lanes} lanes (left), local size {local}, number {number}\n{text}");
    }
}

/// The compiled kernel; a test that runs it with several sizes compiles it once.
fn ready(text: &str, lanes: u32) -> Rc<Ready> {
    thread_local! {
        static MADE: RefCell<HashMap<(String, u32), Rc<Ready>>> = RefCell::default();
    }
    let make = || Rc::new(Ready::new(parse_module(text).unwrap_or_else(|e| panic!("{e}")), lanes));
    MADE.with_borrow_mut(|made| made.entry((text.to_owned(), lanes)).or_insert_with(make).clone())
}

/// For `lanes`: as many as the cost model chooses.
const CHOSEN: u32 = 0;

/// The work-group function `entry` of a module's one kernel, verified after each pass, and its text.
fn lower(module: Module, lanes: u32) -> (Lowered, String) {
    lower_calling(module, lanes, true)
}

/// The same; the baseline calls nothing in lanes.
fn lower_calling(mut module: Module, lanes: u32, in_lanes: bool) -> (Lowered, String) {
    find_effects(&mut module);
    module.verify().unwrap();
    let mut kernel = module.kernels.remove(0);
    if in_lanes {
        kernel.callees = Callees::new(&module, TargetFacts::with_vectors(512), &Tables::default());
    }
    let lanes = (lanes != CHOSEN).then_some(lanes);
    let options = Options {
        facts: TargetFacts::with_vectors(512),
        lanes,
        preferred_lanes: None,
        optimize: true,
        verify: true,
        explain: false,
        linear_memory: false,
        usual: None,
    };
    let lowered = pipeline::run(kernel, "entry", &options, |_, form| {
        // What is printed is read as well.
        if let pipeline::Form::Lowered(group) = form {
            let text = group.function.to_string();
            parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    });
    let lowered = lowered.unwrap_or_else(|e| panic!("{e}"));
    let mut text = Text::default();
    module.functions.iter().chain(&lowered.group.called).for_each(|function| text.add(function));
    text.add(&lowered.group.function);
    (lowered, text.finish())
}

fn optimized_object(ir: &str) -> Vec<u8> {
    let session = Session::new();
    let mut module = parse_text(&session, ir).unwrap_or_else(|e| panic!("{e}\n{ir}"));
    codegen::generate(
        &session,
        &mut module,
        &["entry".into()],
        &crate::llvm::host(),
        (Effort::Full, Default::default()),
        |_| {},
    )
    .unwrap_or_else(|e| panic!("{e}\n{ir}"))
}

fn baseline_object(function: &Function, called: &[Function]) -> Vec<u8> {
    let legal = |function: &Function| {
        let legal = legalize(function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        verify(&legal).unwrap_or_else(|e| panic!("{e}\n{legal}"));
        legal
    };
    let module = Module { functions: called.iter().map(legal).collect(), ..Module::default() };
    let function = legal(function);
    cranelift::object(&module, &[&function], &crate::host_inputs())
        .unwrap_or_else(|e| panic!("{e}\n{function}"))
}

/// A program of a kernel that calls nothing.
fn alone(kernel: Function) -> Module {
    Module { kernels: vec![kernel], ..Module::default() }
}

/// A compiled kernel.
struct Ready {
    info: KernelInfo,
    entry: RawWorkGroupFn,
    /// The dimension that work-items are numbered in.
    row_dimension: usize,
    _program: Arc<LoadedProgram>,
}

impl Ready {
    fn new(module: Module, lanes: u32) -> Self {
        let (kernel, functions) = (&module.kernels[0], module.functions.clone());
        let extended = |sizes: [u32; 3]| sizes.iter().position(|&size| size > 1);
        let row_dimension = kernel.required_work_group_size.and_then(extended).unwrap_or(0);
        let (lowered, ir) = lower_calling(module, lanes.max(1), lanes != BASELINE);
        let object = match lanes {
            BASELINE => baseline_object(&lowered.group.function, &functions),
            _ => optimized_object(&ir),
        };
        let signature = KernelSignature { name: "k".into(), argument_block_size: 24, ..Default::default() };
        let code = KernelCode {
            static_local_size: lowered.static_local_size,
            private_size: lowered.group.private_size,
            scratch_per_item: lowered.group.scratch_per_item,
            scratch_fixed: lowered.group.scratch_fixed,
            ..KernelCode::plain("entry")
        };
        let info = KernelInfo { signature, code };
        let compiled = CompiledProgram {
            objects: vec![object],
            kernels: vec![info.clone()],
            data: Default::default(),
            log: String::new(),
        };
        let kernel = crate::loaded(&compiled).unwrap().remove(0);
        Ready { info, entry: kernel.entry, row_dimension, _program: kernel.program }
    }

    fn run(&self, data: &mut [i32], local: u64, number: i32) {
        let size = |bytes: u64| vec![0xa5a5_5a5a_dead_beef_u128; bytes.div_ceil(16) as usize + 16];
        let (mut scratch, mut locals) = (size(self.info.code.scratch_size(local)), size(4096));
        let groups = data.len() as u64 / local;
        let sizes = |items: u64| std::array::from_fn(|d| if d == self.row_dimension { items } else { 1 });
        let range = Launch::whole(3, [0; 3], sizes(data.len() as u64), sizes(local));
        let launch = Launch { streams: 1, ..range };
        let aligned = |memory: &mut Vec<u128>| {
            let start = memory.as_mut_ptr();
            start.wrapping_add(start.cast::<u8>().align_offset(128) / 16).cast::<u8>()
        };
        let mut arguments = vec![0u128; 16];
        let block = aligned(&mut arguments).cast::<u64>();
        let (locals, scratch) = (aligned(&mut locals), aligned(&mut scratch));
        for (first, end) in [(0, groups / 2), (groups / 2, groups)] {
            // SAFETY: all blocks are aligned to 128 bytes and as large as the kernel's info asks; the data has one
            // element for each work-item, and the kernels stay within them.
            unsafe {
                block.write(data.as_mut_ptr() as u64);
                block.add(1).write(self.info.code.static_local_size.next_multiple_of(128));
                block.add(2).write(number as u64);
                (self.entry)(block.cast(), &launch, first, end, locals, scratch);
            }
        }
    }
}

fn numbers(n: usize) -> Vec<i32> {
    (0..n as i32).map(|i| i.wrapping_mul(7919) % 1000 - 300).collect()
}

const PARAMS: &str = "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset, %2: i32 @ 16)";

#[test]
fn values_cross_barriers() {
    let text = format!(
        r#"{PARAMS} {{
b0:
  %3: i64 = global_id 0
  %4: i64 = local_id 0
  %5: ptr(global) = address %0 + %3*4 + 0
  %6: i32 = load %5, align 4
  %7: i32 = mul %6, 3:i32
  %8: ptr(local) = address %1 + %4*4 + 0
  store %8, %7, align 4
  barrier b1
b1:
  %9: i64 = local_size 0
  %10: i64 = sub %9, %4
  %11: i64 = sub %10, 1:i64
  %12: ptr(local) = address %1 + %11*4 + 0
  %13: i32 = load %12, align 4
  barrier b2
b2:
  %14: i32 = mul %13, 10:i32
  %15: i32 = add %14, %7
  store %5, %15, align 4
  return
}}"#
    );
    for local in [1, 5, 16] {
        let mut data = numbers(16 * 5 * 2);
        let before = data.clone();
        run(&text, &mut data, local as u64, 0);
        for (i, &got) in data.iter().enumerate() {
            let (group, item) = (i / local, i % local);
            assert_eq!(got, before[group * local + local - 1 - item] * 30 + before[i] * 3, "{local} {i}");
        }
    }
}

/// A tree reduction: a barrier in a loop with a uniform count, a divergent branch before it.
const REDUCTION: &str = r#" {
b0:
  %3: i64 = global_id 0
  %4: i64 = local_id 0
  %5: ptr(global) = address %0 + %3*4 + 0
  %6: i32 = load %5, align 4
  %7: ptr(local) = address %1 + %4*4 + 0
  store %7, %6, align 4
  barrier b1
b1:
  %8: i64 = local_size 0
  jump b2(%8, 0:i32)
b2(%9: i64, %20: i32):
  %10: i64 = lshr %9, 1:i64
  %11: i1 = icmp ugt %10, 0:i64
  branch %11, b3, b6
b3:
  %12: i1 = icmp ult %4, %10
  branch %12, b4, b5(%20)
b4:
  %13: ptr(local) = address %7 + %10*4 + 0
  %14: i32 = load %13, align 4
  %15: i32 = load %7, align 4
  %16: i32 = add %14, %15
  store %7, %16, align 4
  %21: i32 = add %20, 1:i32
  jump b5(%21)
b5(%22: i32):
  barrier b2(%10, %22)
b6:
  %17: i32 = load %1, align 4
  %18: i32 = mul %22, 100000:i32
  %19: i32 = add %17, %18
  store %5, %19, align 4
  return
}"#;

#[test]
fn a_uniform_loop_around_a_barrier() {
    // %22 is not available in b6 by dominance: b6 reads the loop's own parameter.
    let text = format!("{PARAMS}{}", REDUCTION.replace("mul %22,", "mul %20,"));
    for local in [1usize, 4, 64] {
        let mut data = numbers(64 * 4);
        let before = data.clone();
        run(&text, &mut data, local as u64, 0);
        for (i, &got) in data.iter().enumerate() {
            let sum: i32 = before[i / local * local..][..local].iter().sum();
            let item = i % local;
            let adds = std::iter::successors(Some(local / 2), |n| Some(n / 2)).take_while(|&n| n > 0);
            let iterations = adds.filter(|&n| item < n).count() as i32;
            assert_eq!(got, sum + iterations * 100_000, "{local} {i}");
        }
    }
}

#[test]
fn packs_lie_along_the_dimension_that_groups_extend_in() {
    for (dimension, size) in [(1, "1 16 1"), (2, "1 1 16"), (1, "1 21 1")] {
        let local: usize = if size == "1 21 1" { 21 } else { 16 };
        let text = format!("{PARAMS}{}", REDUCTION.replace("mul %22,", "mul %20,"));
        let text = ["global_id", "local_id", "local_size"]
            .iter()
            .fold(text, |text, query| text.replace(&format!("{query} 0"), &format!("{query} {dimension}")));
        let of_flat = "  %30: i64 = local_id 0\n  %31: i64 = global_id 0\n  %32: i64 = add %30, %31\n  %33: i32 = trunc %32\n";
        let text = text.replacen("b0:\n", &format!("  work_group_size {size}\nb0:\n{of_flat}"), 1);
        let text = text
            .replace("add %17, %18", "sub %34, %33")
            .replace("  %19:", "  %34: i32 = add %17, %18\n  %19:");
        let lowered = lower(parse_module(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), 8).0;
        assert_eq!((lowered.row_dimension, lowered.lanes), (dimension, 8));
        let mut data = numbers(local * 4);
        let before = data.clone();
        run(&text, &mut data, local as u64, 0);
        for (i, &got) in data.iter().enumerate() {
            // Of an odd number, the last half's last one is not added.
            let mut sums = before[i / local * local..][..local].to_vec();
            let mut count = 0;
            let halves = std::iter::successors(Some(local / 2), |n| Some(n / 2)).take_while(|&n| n > 0);
            for half in halves {
                (0..half).for_each(|item| sums[item] = sums[item].wrapping_add(sums[item + half]));
                count += i32::from(i % local < half);
            }
            assert_eq!(got, sums[0] + count * 100_000, "{size} {i}");
        }
    }
}

#[test]
fn a_uniform_loop_costs_one_region_per_barrier() {
    let text = format!("{PARAMS}{}", REDUCTION.replace("mul %22,", "mul %20,"));
    let group = spirula_kir::transform::form_regions(parse(&text).unwrap());
    // Start; loop test after the first barrier, loop body, loop test after the second barrier, end.
    assert_eq!(group.regions.len(), 5, "{group}");
    // After the second barrier the loop only hands on what lies in its slots already: nothing to do for each item.
    assert_eq!(group.regions.iter().filter(|r| r.once).count(), 1, "{group}");
}

#[test]
fn work_items_that_return_early_stay_away() {
    // The work-items from %2 on return before the barrier; the others sum their neighbours.
    let text = format!(
        r#"{PARAMS} {{
b0:
  %3: i64 = local_id 0
  %4: i32 = trunc %3
  %5: i1 = icmp slt %4, %2
  branch %5, b1, b9
b1:
  %6: i64 = global_id 0
  %7: ptr(global) = address %0 + %6*4 + 0
  %8: i32 = load %7, align 4
  %9: ptr(local) = address %1 + %3*4 + 0
  store %9, %8, align 4
  jump b2(0:i32, 0:i32)
b2(%10: i32, %11: i32):
  %12: i1 = icmp slt %10, %2
  branch %12, b3, b8
b3:
  barrier b4
b4:
  %13: i64 = sext %10
  %14: ptr(local) = address %1 + %13*4 + 0
  %15: i32 = load %14, align 4
  %16: i32 = add %11, %15
  %17: i32 = add %10, 1:i32
  jump b2(%17, %16)
b8:
  store %7, %11, align 4
  return
b9:
  return
}}"#
    )
    .replace("b8:", "b5:")
    .replace("b8", "b5")
    .replace("b9", "b6");
    for number in [0, 3, 8] {
        let mut data = numbers(32);
        let before = data.clone();
        run(&text, &mut data, 8, number);
        for (i, &got) in data.iter().enumerate() {
            let (start, item) = (i / 8 * 8, i % 8);
            let sum = before[start..start + number as usize].iter().sum();
            assert_eq!(got, if item < number as usize { sum } else { before[i] }, "{number} {i}");
        }
    }
}

#[test]
fn private_arrays_keep_their_owner() {
    let text = format!(
        r#"{PARAMS} {{
  slot $0: 16 align 4
b0:
  %3: i64 = global_id 0
  %4: i64 = local_id 0
  %5: ptr(global) = address %0 + %3*4 + 0
  %6: i32 = load %5, align 4
  %7: ptr(private) = slot_address $0
  %8: i64 = and %4, 3:i64
  %9: ptr(private) = address %7 + %8*4 + 0
  store %9, %6, align 4
  %10: ptr(local) = address %1 + %4*4 + 0
  store %10, %6, align 4
  barrier b1
b1:
  %11: i64 = xor %8, 1:i64
  %12: ptr(private) = address %7 + %11*4 + 0
  %13: i64 = xor %4, 1:i64
  %14: ptr(local) = address %1 + %13*4 + 0
  %15: i32 = load %14, align 4
  store %12, %15, align 4
  barrier b2
b2:
  %16: i32 = load %9, align 4
  %17: i32 = load %12, align 4
  %18: i32 = mul %17, 2:i32
  %19: i32 = sub %16, %18
  store %5, %19, align 4
  return
}}"#
    );
    let mut data = numbers(32);
    let before = data.clone();
    run(&text, &mut data, 8, 0);
    for (i, &got) in data.iter().enumerate() {
        assert_eq!(got, before[i] - 2 * before[i ^ 1], "{i}");
    }
}

#[test]
fn barriers_on_both_sides_of_a_branch() {
    let text = format!(
        r#"{PARAMS} {{
b0:
  %3: i64 = global_id 0
  %4: i64 = local_id 0
  %5: ptr(global) = address %0 + %3*4 + 0
  %6: i32 = load %5, align 4
  %7: ptr(local) = address %1 + %4*4 + 0
  %8: i64 = xor %4, 3:i64
  %9: ptr(local) = address %1 + %8*4 + 0
  store %7, %6, align 4
  switch %2, 1: b1, 2: b2, default: b3
b1:
  barrier b4(7:i32)
b2:
  barrier b5
b3:
  jump b6(%6)
b4(%10: i32):
  %11: i32 = load %9, align 4
  %12: i32 = add %11, %10
  jump b6(%12)
b5:
  %13: i32 = load %9, align 4
  barrier b7
b6(%14: i32):
  store %5, %14, align 4
  return
b7:
  store %7, %13, align 4
  barrier b8
b8:
  %15: i32 = load %9, align 4
  jump b6(%15)
}}"#
    );
    for number in 0..3 {
        let mut data = numbers(24);
        let before = data.clone();
        run(&text, &mut data, 4, number);
        for (i, &got) in data.iter().enumerate() {
            let expected = [before[i], before[i ^ 3] + 7, before[i]][number as usize];
            assert_eq!(got, expected, "{number} {i}");
        }
    }
}

/// Each kernel's scalar code, then packs of one width for each, in turn.
const WIDTHS: [u32; 6] = [1, 4, 16, 2, 32, 8];

/// `SPIRULA_FUZZ=N` compares N kernels instead; `SPIRULA_FUZZ=N..M` those of these numbers.
#[test]
fn random_kernels_mean_what_they_say() {
    let asked = std::env::var("SPIRULA_FUZZ").unwrap_or_default();
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    let seeds = first.parse().unwrap_or(0)..end.parse().unwrap_or(40);
    for seed in seeds {
        let kernel = generate::kernel(seed);
        verify(&kernel).unwrap_or_else(|e| panic!("kernel {seed}: {e}\n{kernel}"));
        let (local, groups) = ([1, 4, 7, 16, 33][seed as usize % 5], 3);
        let (number, lanes) = ((seed % 11) as i32, WIDTHS[seed as usize % WIDTHS.len()]);
        let mut expected = numbers(groups * local);
        let data = expected.clone();
        let mut memory = interpret::Memory { data: &mut expected, local: vec![0; local] };
        for group in 0..groups as u64 {
            interpret::run_group(&kernel, &mut memory, group, (local as u64, lanes.into()), number);
        }
        let text = format!("{kernel}{}", spirula_kir::transform::form_regions(kernel.clone()));
        // Scalar code is what the baseline is made of, too.
        let ways = if lanes == 1 { vec![lanes, BASELINE] } else { vec![lanes] };
        for way in ways {
            let mut data = data.clone();
            Ready::new(alone(kernel.clone()), way).run(&mut data, local as u64, number);
            assert_eq!(
                data, expected,
                "kernel {seed}, {way} lanes, local size {local}, number {number}\n{text}"
            );
        }
    }
}
