//! Bytes to code to right answers, in this process; and what must not become a program.

use super::*;
use crate::front::testing;
use crate::host_inputs;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::options::{CompileOptions, MathOptions, Usual};
use spirula_interface::program::{ArgumentKind, Launch, RawWorkGroupFn};
use std::ops::Range;
use std::ptr::null_mut;

const SCALE: &str = r#"
define spir_kernel void @scale(ptr addrspace(1) %data, i32 %factor) {
  %id = call spir_func i64 @_Z13get_global_idj(i32 0)
  %place = getelementptr i32, ptr addrspace(1) %data, i64 %id
  %old = load i32, ptr addrspace(1) %place, align 4
  %new = mul i32 %old, %factor
  store i32 %new, ptr addrspace(1) %place, align 4
  ret void
}
declare spir_func i64 @_Z13get_global_idj(i32)
!opencl.kernels = !{!0}
!0 = !{ptr @scale, !1, !2, !3, !4, !5}
!1 = !{!"kernel_arg_addr_space", i32 1, i32 0}
!2 = !{!"kernel_arg_access_qual", !"none", !"none"}
!3 = !{!"kernel_arg_type", !"int*", !"int"}
!4 = !{!"kernel_arg_type_qual", !"", !""}
!5 = !{!"kernel_arg_base_type", !"int*", !"int"}
!opencl.spir.version = !{!6}
!opencl.ocl.version = !{!6}
!6 = !{i32 1, i32 2}
"#;

/// The program of a module in LLVM's text.
fn built(text: &str, inputs: &Inputs) -> Result<CompiledProgram, CompileError> {
    build(&[&testing::bitcode(text)], inputs, Dump::default(), &mut Stages::begin())
}

fn launch(groups: u64, size: u64) -> Launch {
    Launch::whole(1, [0; 3], [groups * size, 1, 1], [size, 1, 1])
}

/// What `scale` makes of 0 to 255 with the factor 7.
fn scaled(kernel: &KernelInfo, entry: RawWorkGroupFn) -> Vec<i32> {
    ran(kernel, entry, (0..256).collect(), 7)
}

/// What a kernel like `scale` makes of 256 numbers and a factor.
fn ran(kernel: &KernelInfo, entry: RawWorkGroupFn, data: Vec<i32>, factor: i32) -> Vec<i32> {
    ran_in_groups(kernel, entry, (data, factor), 64)
}

/// The same in groups of so many work-items, which divide 256.
fn ran_in_groups(
    kernel: &KernelInfo,
    entry: RawWorkGroupFn,
    (mut data, factor): (Vec<i32>, i32),
    size: u64,
) -> Vec<i32> {
    let groups = 256 / size;
    run_part(kernel, entry, (&mut data, factor), &launch(groups, size), 0..groups);
    data
}

/// Runs some groups of a launch of a kernel like `scale`, which covers the data.
fn run_part(
    kernel: &KernelInfo,
    entry: RawWorkGroupFn,
    (data, factor): (&mut [i32], i32),
    launch: &Launch,
    groups: Range<u64>,
) {
    #[repr(C, align(128))]
    struct Block([u8; 128]);
    let mut block = Block([0; 128]);
    let at = kernel.signature.arguments[0].offset as usize;
    block.0[at..at + 8].copy_from_slice(&(data.as_mut_ptr() as usize).to_ne_bytes());
    let at = kernel.signature.arguments[1].offset as usize;
    block.0[at..at + 4].copy_from_slice(&factor.to_ne_bytes());
    let mut scratch = vec![0u128; kernel.code.scratch_size(64) as usize / 16 + 16];
    let scratch = scratch.as_mut_ptr().cast::<u8>();
    // SAFETY: in bounds, since 256 bytes were added.
    let scratch = unsafe { scratch.add(scratch.align_offset(128)) };
    // SAFETY: the launch covers `data`; the block is laid out as the kernel says; no local memory.
    unsafe { entry(block.0.as_ptr(), launch, groups.start, groups.end, null_mut(), scratch) };
}

#[test]
fn a_kernel_is_built_loaded_and_right() {
    let ways = [Tier::Baseline, Tier::Optimized].map(|tier| [(tier, false), (tier, true)]);
    for (tier, optimization_disabled) in ways.into_iter().flatten() {
        let mut inputs = host_inputs();
        inputs.options.optimization_disabled = optimization_disabled;
        inputs.tier = tier;
        let program = built(SCALE, &inputs).unwrap();
        let kernel = &program.kernels[0];
        assert_eq!(
            (kernel.code.tier, kernel.code.lanes > 1),
            (tier, tier == Tier::Optimized && !optimization_disabled)
        );
        let kinds: Vec<_> = kernel.signature.arguments.iter().map(|argument| argument.kind).collect();
        assert_eq!(kinds, [ArgumentKind::Buffer, ArgumentKind::Value { size: 4 }]);
        let loaded = crate::loaded(&program).unwrap();

        let data = scaled(kernel, loaded[0].entry);
        assert!(data.iter().enumerate().all(|(index, &value)| value == 7 * index as i32), "{data:?}");
    }
}

/// A kernel like `scale` makes the same of 256 numbers and each of the factors.
fn same_in_both_tiers(text: &str, data: &[i32], factors: &[i32]) {
    let [baseline, optimized] = [Tier::Baseline, Tier::Optimized].map(|tier| {
        let mut inputs = host_inputs();
        inputs.tier = tier;
        let program = built(text, &inputs).unwrap();
        let loaded = crate::loaded(&program).unwrap();
        let results =
            factors.iter().map(|&factor| ran(&program.kernels[0], loaded[0].entry, data.to_vec(), factor));
        results.collect::<Vec<_>>()
    });
    assert_eq!(baseline, optimized);
}

/// Which of two zeros, and of a number and NaN: the second operand is known to be a number where it was an integer, which LLVM
/// makes use of.
#[test]
fn minima_are_the_same_bits_in_both_tiers() {
    let body = "%x = bitcast i32 %old to float
  %number = sitofp i32 %factor to float
  %least = call spir_func float @_Z4fminff(float %x, float %number)
  %most = call spir_func float @_Z4fmaxff(float %number, float %x)
  %other = fneg float %x
  %any = call spir_func float @_Z4fminff(float %other, float %x)
  %constant = call spir_func float @_Z4fmaxff(float %x, float 0.0)
  %a = bitcast float %least to i32
  %b = bitcast float %most to i32
  %c = bitcast float %any to i32
  %d = bitcast float %constant to i32
  %ab = xor i32 %a, %b
  %shifted = lshr i32 %ab, 1
  %cd = xor i32 %c, %d
  %shifted2 = lshr i32 %cd, 2
  %lower = xor i32 %b, %shifted
  %new = xor i32 %lower, %shifted2";
    let declared = "declare spir_func float @_Z4fminff(float, float)\ndeclare spir_func float @_Z4fmaxff(float, float)\n";
    let text = SCALE.replace("%new = mul i32 %old, %factor", body) + declared;
    let numbers = [0.0, -0.0, 1.0, -1.0, f32::NAN, -f32::NAN, f32::INFINITY, 1e-40_f32]
        .map(|number| number.to_bits() as i32);
    let data: Vec<i32> = (0..256).map(|at| numbers[at % numbers.len()]).collect();
    same_in_both_tiers(&text, &data, &[0, 1, -1]);
}

/// Bits of what a lane has and of what it computes, in some of the lanes: see `codegen/masked_logic.rs`.
#[test]
fn logic_under_a_mask_is_the_same_bits_in_both_tiers() {
    let kinds = [("%a", "-8", "7"), ("%a", "65535", "-65536"), ("%b", "-8", "7"), ("%b", "65535", "-65536")];
    for ((other, left, right), operation) in
        kinds.into_iter().flat_map(|kind| ["or", "xor", "and"].map(|operation| (kind, operation)))
    {
        let body = format!(
            "%place32 = trunc i64 %id to i32
  %a = mul i32 %old, 77
  %b = sub i32 %a, %place32
  %c = icmp sgt i32 %old, %factor
  %p = and i32 %a, {left}
  %q = and i32 %b, {right}
  %o = {operation} i32 %p, %q
  %new = select i1 %c, i32 %o, i32 {other}"
        );
        let text = SCALE.replace("%new = mul i32 %old, %factor", &body);
        let data: Vec<i32> = (0..256_i32).map(|at| at.wrapping_mul(0x1234_5677)).collect();
        same_in_both_tiers(&text, &data, &[0, 1 << 30, i32::MIN]);
    }
}

/// Of two zeros that differ in sign an atomic minimum keeps the same one, too, where LLVM knows the operand and where it doesn't.
#[test]
fn atomic_minima_are_the_same_bits_in_both_tiers() {
    let body = "%given = bitcast i32 %factor to float
  %cell = addrspacecast ptr addrspace(1) %place to ptr addrspace(4)
  %before = call spir_func float @_Z16atomic_fetch_minPVU3AS4U7_Atomicff(ptr addrspace(4) %cell, float %given)
  %between = call spir_func float @_Z16atomic_fetch_maxPVU3AS4U7_Atomicff(ptr addrspace(4) %cell, float 0.0)
  %last = call spir_func float @_Z16atomic_fetch_minPVU3AS4U7_Atomicff(ptr addrspace(4) %cell, float -0.0)
  %a = bitcast float %before to i32
  %b = bitcast float %between to i32
  %c = bitcast float %last to i32
  %d = load i32, ptr addrspace(1) %place
  %shifted = lshr i32 %b, 1
  %shifted2 = lshr i32 %c, 2
  %shifted3 = lshr i32 %d, 3
  %ab = xor i32 %a, %shifted
  %cd = xor i32 %shifted2, %shifted3
  %new = xor i32 %ab, %cd";
    let declared = ["min", "max"].map(|name| {
        format!(
            "declare spir_func float @_Z16atomic_fetch_{name}PVU3AS4U7_Atomicff(ptr addrspace(4), float)\n"
        )
    });
    let text = SCALE.replace("%new = mul i32 %old, %factor", body) + &declared.concat();
    let bits = |number: f32| number.to_bits() as i32;
    let numbers = [0.0, -0.0, 1.0, -1.0, f32::NAN, -f32::NAN, f32::INFINITY, 1e-40_f32].map(bits);
    let data: Vec<i32> = (0..256).map(|at| numbers[at % numbers.len()]).collect();
    same_in_both_tiers(&text, &data, &numbers);
}

/// A kernel that sees its sub-groups is optimized in the baseline's build, and what the host sees is the same in both.
#[test]
fn what_the_host_sees_does_not_depend_on_the_tier() {
    let text = format!(
        "{}declare spir_func i32 @_Z18get_sub_group_sizev()\n{}!9 = !{{ptr @seeing, !1, !2, !3, !4, !5}}\n",
        SCALE
            .split_once("declare")
            .unwrap()
            .0
            .replace("@scale", "@seeing")
            .replace("mul i32 %old, %factor", "call spir_func i32 @_Z18get_sub_group_sizev()"),
        SCALE.replace("kernels = !{!0}", "kernels = !{!0, !9}"),
    );
    let [baseline, optimized] = [Tier::Baseline, Tier::Optimized].map(|tier| {
        let mut inputs = host_inputs();
        inputs.tier = tier;
        let mut stages = Stages::begin();
        let program = build(&[&testing::bitcode(&text)], &inputs, Dump::default(), &mut stages).unwrap();
        let names: Vec<String> = stages.ended().into_iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["read", "harden", "link", "clean up", "import", "Kernel IR", "code"]);
        program
    });
    let tiers = |program: &CompiledProgram| program.kernels.iter().map(|k| k.code.tier).collect::<Vec<_>>();
    assert_eq!(tiers(&baseline), [Tier::Baseline, Tier::Optimized]);
    assert_eq!(tiers(&optimized), [Tier::Optimized; 2]);
    assert!(baseline.kernels[1].code.sub_group_size > 1);
    assert_eq!((baseline.objects.len(), baseline.data), (2, optimized.data));
    for (one, other) in std::iter::zip(&baseline.kernels, &optimized.kernels) {
        assert_eq!(one.signature, other.signature);
        let seen = |kernel: &KernelInfo| {
            let KernelCode { static_local_size, sub_group_size, sees_group, any_order, .. } = kernel.code;
            (static_local_size, sub_group_size, sees_group, any_order)
        };
        assert_eq!(seen(one), seen(other));
    }
}

/// Names, calling conventions, visibility, attributes, prefix data and garbage collectors beyond those of SPIR: what a producer
/// did there is no ambiguity.
#[test]
fn what_has_no_meaning_in_spir_changes_nothing() {
    let text = SCALE.replace(
        "mul i32 %old, %factor",
        "call fastcc i32 @\"a product, by-name\"(i32 inreg %old, i32 %factor)",
    ) + "define hidden fastcc i32 @\"a product, by-name\"(i32 inreg %a, i32 %b) unnamed_addr #0 gc \"shadow-stack\" \
           prefix i32 77 {\n %c = mul i32 %a, %b\n ret i32 %c\n}\n\
           attributes #0 = { cold minsize noinline noredzone nounwind optsize \"of-nobody\"=\"known\" }\n";
    let program = built(&text, &host_inputs()).unwrap();
    let loaded = crate::loaded(&program).unwrap();
    let data = scaled(&program.kernels[0], loaded[0].entry);
    assert!(data.iter().enumerate().all(|(index, &value)| value == 7 * index as i32), "{data:?}");
}

/// `opencl_unroll_hint`, in SPIR 2.0's words and in today's.
#[test]
fn hints_to_unroll_change_nothing() {
    for hint in ["!\"opencl.loop.unroll_hint\", i32 4", "!\"llvm.loop.unroll.count\", i32 4"] {
        let text = SCALE
            .replace("mul i32 %old, %factor", "call spir_func i32 @product(i32 %old, i32 %factor)")
            + "define spir_func i32 @product(i32 %a, i32 %b) {\n br label %loop\nloop:\n\
               %i = phi i32 [0, %0], [%j, %loop]\n %s = phi i32 [0, %0], [%t, %loop]\n\
               %t = add i32 %s, %a\n %j = add i32 %i, 1\n %again = icmp slt i32 %j, %b\n\
               br i1 %again, label %loop, label %end, !llvm.loop !50\nend:\n ret i32 %t\n}\n\
               !50 = distinct !{!50, !51}\n"
            + &format!("!51 = !{{{hint}}}\n");
        let program = built(&text, &host_inputs()).unwrap();
        let loaded = crate::loaded(&program).unwrap();
        let data = scaled(&program.kernels[0], loaded[0].entry);
        assert!(data.iter().enumerate().all(|(index, &value)| value == 7 * index as i32), "{data:?}");
    }
}

/// Kernels that call a common function, enough of them to be shared out among threads.
#[test]
fn kernels_of_several_objects_are_right() {
    const COUNT: usize = 12;
    let (kernel, metadata) = SCALE.split_once("declare").unwrap();
    let kernel =
        kernel.replace("mul i32 %old, %factor", "call spir_func i32 @product(i32 %old, i32 %factor)");
    let mut text = format!(
        "{}declare{}",
        (0..COUNT).map(|n| kernel.replace("@scale", &format!("@scale{n}"))).collect::<String>(),
        metadata.replace("!0 = !{ptr @scale,", "!0 = !{ptr @scale0,")
    );
    let listed: String = (1..COUNT).map(|n| format!(", !{}", 100 + n)).collect();
    text = text.replace("!opencl.kernels = !{!0}", &format!("!opencl.kernels = !{{!0{listed}}}"));
    text.extend((1..COUNT).map(|n| format!("!{} = !{{ptr @scale{n}, !1, !2, !3, !4, !5}}\n", 100 + n)));
    text.push_str(
        "define spir_func i32 @product(i32 %a, i32 %b) noinline {\n %p = mul i32 %a, %b\n ret i32 %p\n}\n",
    );
    let mut inputs = host_inputs();
    inputs.target.threads = 2;
    let program = built(&text, &inputs).unwrap();
    assert_eq!(program.objects.len(), 2);
    let loaded = crate::loaded(&program).unwrap();
    for (n, (kernel, code)) in std::iter::zip(&program.kernels, &loaded).enumerate() {
        assert_eq!(kernel.signature.name, format!("scale{n}"));
        let data = scaled(kernel, code.entry);
        assert!(data.iter().enumerate().all(|(index, &value)| value == 7 * index as i32), "{n}: {data:?}");
    }
}

#[test]
fn a_loop_that_measures_a_string_stays_a_loop() {
    let text = SCALE
        .replace(
            "  %new = mul",
            "  %length = call spir_func i32 @length(ptr addrspace(1) %data)\n  %new = mul",
        )
        .replace("%factor\n  store", "%length\n  store")
        + "define spir_func i32 @length(ptr addrspace(1) %text) {
             br label %next
           next:
             %i = phi i64 [ 0, %0 ], [ %j, %next ]
             %place = getelementptr inbounds i8, ptr addrspace(1) %text, i64 %i
             %c = load i8, ptr addrspace(1) %place, align 1
             %j = add i64 %i, 1
             %end = icmp eq i8 %c, 0
             br i1 %end, label %done, label %next
           done:
             %r = trunc i64 %i to i32
             ret i32 %r
           }\n";
    built(&text, &host_inputs()).unwrap();
}

#[test]
fn a_linked_library_builds_as_well() {
    let inputs = host_inputs();
    let library = link(&[&testing::bitcode(SCALE)], &inputs).unwrap();
    let program = build(&[&library], &inputs, Dump::default(), &mut Stages::begin()).unwrap();
    assert_eq!(program.kernels[0].signature.name, "scale");
}

#[test]
fn what_is_missing_is_named_with_its_kernel() {
    let text = SCALE.replace("_Z13get_global_idj", "_Z19nowhere_to_be_foundj");
    let error = built(&text, &host_inputs()).unwrap_err().to_string();
    assert!(error.contains("nowhere_to_be_found(uint)") && error.contains("scale"), "{error}");
}

#[test]
fn every_fixture_is_checked_and_compiled_or_says_what_it_lacks() {
    let inputs = host_inputs();
    for (name, bytes) in testing::fixtures() {
        check(&bytes, &inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
        match build(&[&bytes], &inputs, Dump::default(), &mut Stages::begin()) {
            Ok(program) => {
                crate::loaded(&program).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("is not defined"), "{name}: {text}");
            }
        }
    }
}

#[test]
fn code_for_one_kernel_begins_where_its_program_was_imported() {
    // Of no other test.
    let bitcode = testing::bitcode(&SCALE.replace("mul i32 %old, %factor", "xor i32 %old, %factor"));
    let build = |tier: Tier, specialization: Option<Specialization>, math: MathOptions| {
        let mut inputs = Inputs { tier, ..host_inputs() };
        inputs.options = CompileOptions { specialization, math, ..inputs.options };
        let mut stages = Stages::begin();
        let program = build(&[&bitcode], &inputs, Dump::default(), &mut stages).unwrap();
        (program.objects, stages.ended().iter().any(|stage| stage.name == "import"))
    };
    let wanted =
        || Some(Specialization { kernel: "scale".into(), groups: Groups::Sized([16, 1, 1]), lanes: None });
    let (fresh, imported) = build(Tier::Optimized, wanted(), MathOptions::NONE);
    assert!(imported);
    assert!(build(Tier::Baseline, None, MathOptions::NONE).1);
    assert!(build(Tier::Baseline, None, MathOptions::NONE).1, "the log may be wanted again");
    assert_eq!(build(Tier::Optimized, wanted(), MathOptions::NONE), (fresh, false));
    assert!(build(Tier::Optimized, wanted(), MathOptions::MAD_ENABLE).1, "of other options");
}

/// What SPIR forbids in a function that the kernel doesn't call is found when the program is built, and not read for one of its kernels.
#[test]
fn of_a_large_module_a_kernel_is_read_alone() {
    let of_size = |functions: usize| {
        let filler = |n: usize| {
            format!(
                "define spir_func i64 @filler.of.the.test.{n}(i64 %x) {{\n  %y = mul i64 %x, {}\n  ret i64 %y\n}}\n",
                n + (1 << 40)
            )
        };
        let recursive = "define spir_func void @circle() {\n  call spir_func void @circle()\n  ret void\n}\n";
        let kernel = "define spir_kernel void @k(ptr addrspace(1) %p) {\n  store i32 7, ptr addrspace(1) %p\n  ret void\n}\n";
        let text = format!("{kernel}{recursive}{}", (0..functions).map(filler).collect::<String>());
        let bitcode = testing::bitcode(&text);
        (bitcode.len() >= LARGE, bitcode)
    };
    let groups = Groups::Sized([16, 1, 1]);
    let wanted = Specialization { kernel: "k".into(), groups, lanes: None };
    let build = |bitcode: &[u8], specialization: Option<Specialization>| {
        let mut inputs = Inputs { tier: Tier::Optimized, ..host_inputs() };
        inputs.options.specialization = specialization;
        build(&[bitcode], &inputs, Dump::default(), &mut Stages::begin())
    };
    let ((is_large, large), (is_small, small)) = (of_size(6000), of_size(10));
    assert_eq!([is_large, is_small], [true, false]);
    assert!(build(&large, None).unwrap_err().to_string().contains("recursion"));
    assert!(build(&small, Some(wanted.clone())).unwrap_err().to_string().contains("recursion"));
    let program = build(&large, Some(wanted)).unwrap();
    assert_eq!(program.kernels.len(), 1);
    crate::loaded(&program).unwrap();
}

/// Two kernels in objects of their own, which share a variable, and a constant that each may have for itself.
#[test]
fn a_variable_is_in_no_object_but_a_constant_is() {
    let counting = SCALE.replace(
        "  %new = mul i32 %old, %factor",
        "  %c = load i32, ptr addrspace(1) @counter\n  %next = add i32 %c, 1\n  store i32 %next, ptr addrspace(1) @counter
  %slot = getelementptr i32, ptr addrspace(2) @table, i64 %id\n  %t = load i32, ptr addrspace(2) %slot\n  %new = add i32 %old, %t",
    ) + "@counter = internal addrspace(1) global i32 41
@table = internal addrspace(2) constant [3 x i32] [i32 305419896, i32 305419897, i32 305419898]\n";
    let program = built(&counting, &host_inputs()).unwrap();
    assert_eq!((program.data.size, program.data.align, &program.data.image[..]), (4, 4, &[41][..]));
    let contains = |bytes: &[u8]| program.objects[0].windows(bytes.len()).any(|window| window == bytes);
    assert!(contains(b"\0spirula.data\0"), "the object refers to the block by its symbol");
    assert!(contains(&[0x78, 0x56, 0x34, 0x12, 0x79, 0x56, 0x34, 0x12]), "the table is in the object");
}

/// A function that stays a call has its memory on a stack that isn't ours: there is little of it, or it is inlined.
#[test]
fn large_private_arrays_of_functions_become_the_kernels() {
    let with = |functions: &str| {
        SCALE.replace("mul i32 %old, %factor", "call spir_func i32 @f0(i32 %old)") + functions
    };
    let function = |name: &str, bytes: u32, result: &str| {
        format!(
            "define spir_func i32 @{name}(i32 %x) noinline {{\n %s = alloca [{bytes} x i8]\n %q = getelementptr i8, ptr %s, i32 %x\n store i32 %x, ptr %q
 %a = load i32, ptr %s\n {result}\n ret i32 %r\n}}\n"
        )
    };
    let large = built(&with(&function("f0", 200_000, "%r = add i32 %a, 1")), &host_inputs()).unwrap();
    assert!(large.kernels[0].code.private_size >= 200_000);
    let small = built(&with(&function("f0", 1000, "%r = add i32 %a, 1")), &host_inputs()).unwrap();
    assert!(small.kernels[0].code.private_size >= 1000, "what calls need counts");
    let mut deep: String = (0..99)
        .map(|n| function(&format!("f{n}"), 1000, &format!("%r = call i32 @f{}(i32 %a)", n + 1)))
        .collect();
    deep += &function("f99", 1000, "%r = add i32 %a, 1");
    let log = built(&with(&deep), &host_inputs()).unwrap_err().to_string();
    assert!(log.contains("`scale` calls functions that need 100000 bytes of private memory"), "{log}");
}

/// Two kernels in two objects, and a third made later for one local size, add to one variable.
#[test]
fn a_mutable_variable_is_one_for_all_objects_and_variants() {
    let body = SCALE.replace(
        "%new = mul i32 %old, %factor",
        "%was = call spir_func i32 @_Z10atomic_addPU3AS1Vii(ptr addrspace(1) @count, i32 1)\n  %new = add i32 %was, %factor",
    );
    let (kernel, metadata) = body.split_once("declare").unwrap();
    let text = format!(
        "@count = addrspace(1) global i32 100\ndeclare spir_func i32 @_Z10atomic_addPU3AS1Vii(ptr addrspace(1), i32)\n{}{}declare{}!9 = !{{ptr @scale1, !1, !2, !3, !4, !5}}\n",
        kernel.replace("@scale", "@scale0"),
        kernel.replace("@scale", "@scale1"),
        metadata
            .replace("!0 = !{ptr @scale,", "!0 = !{ptr @scale0,")
            .replace("kernels = !{!0}", "kernels = !{!0, !9}"),
    );
    let mut inputs = host_inputs();
    let program = built(&text, &inputs).unwrap();
    assert!(program.data.size >= 4, "{:?}", program.data);
    let variables = std::sync::Arc::new(spirula_service::Variables::new(&program.data, None).unwrap());
    let kernels = spirula_service::load(&program, &variables).unwrap();
    let mut made = |tier: Tier, groups: Groups| {
        inputs.options.specialization = Some(Specialization { kernel: "scale1".into(), groups, lanes: None });
        inputs.tier = tier;
        let variant = built(&text, &inputs).unwrap();
        assert_eq!(variant.kernels[0].code.tier, tier);
        spirula_service::load(&variant, &variables).unwrap()
    };
    let variant = made(Tier::Optimized, Groups::Sized([64, 1, 1]));
    let (baseline, alone) = (made(Tier::Baseline, Groups::Any), made(Tier::Optimized, Groups::Any));
    let mut next = 100;
    for kernel in [&kernels[0], &kernels[1], &variant[0], &baseline[0], &alone[0], &kernels[0]] {
        let mut seen = scaled(&kernel.info, kernel.entry);
        seen.sort();
        assert_eq!(seen, (next + 7..next + 7 + 256).collect::<Vec<_>>(), "{}", kernel.info.signature.name);
        next += 256;
    }
}

#[test]
fn all_code_of_a_kernel_numbers_the_groups_of_a_launch_alike() {
    let id = "%id = call spir_func i64 @_Z13get_global_idj(i32 0)";
    let ids = "%x = call spir_func i64 @_Z13get_global_idj(i32 0)
  %y = call spir_func i64 @_Z13get_global_idj(i32 1)
  %z = call spir_func i64 @_Z13get_global_idj(i32 2)
  %plane = mul i64 %z, 32
  %row = add i64 %plane, %y
  %first = mul i64 %row, 4
  %id = add i64 %first, %x";
    let text = SCALE.replace(id, ids).replace("mul i32 %old", "add i32 %old");
    let made = |tier: Tier, specialization| {
        let mut inputs = host_inputs();
        (inputs.tier, inputs.options.specialization) = (tier, specialization);
        let program = built(&text, &inputs).unwrap();
        crate::loaded(&program).unwrap().remove(0)
    };
    let columns = Specialization { kernel: "scale".into(), groups: Groups::Sized([1, 16, 1]), lanes: None };
    let (baseline, optimized) = (made(Tier::Baseline, None), made(Tier::Optimized, Some(columns)));
    assert_eq!((baseline.info.code.row_dimension, optimized.info.code.row_dimension), (0, 1));
    let range = Launch::whole(3, [0; 3], [4, 32, 2], [1, 16, 1]);
    let along = |dimension| std::array::from_fn(|d| if d == dimension { u64::MAX } else { 0 });
    assert_eq!(baseline.info.code.numbered_along(range.local_size), along(1), "as rows go");
    for first in 0..3 {
        let launch = Launch { numbered_along: along(first), ..range };
        for taken in 0..=16 {
            // What is left when better code comes runs in that.
            let mut data = vec![0; 256];
            run_part(&baseline.info, baseline.entry, (&mut data, 7), &launch, 0..taken);
            run_part(&optimized.info, optimized.entry, (&mut data, 7), &launch, taken..16);
            assert_eq!(data, [7; 256], "along {first}, after {taken}");
        }
    }
}

mod machine_code;
mod specialized;
