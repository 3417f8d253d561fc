//! Random scalar functions with every operation that the legalization knows, compiled with it and without: both must compute
//! the same bits. What is left undefined is not generated.

mod generate;

use super::super::cranelift;
use super::super::llvm::Text;
use super::generate::Random;
use crate::codegen::{self, Effort};
use crate::llvm::{Session, host, parse_text};
use generate::{INPUTS, OUTPUTS};
use spirula_interface::program::{CompiledProgram, KernelCode, KernelInfo, KernelSignature, Launch};
use spirula_kir::transform::expand_minima;
use spirula_kir::transform::legalize::{expand_operations, promote_integers};
use spirula_kir::{Function, Module, verify};

/// Two places for each value: some are 16 bytes long.
type Data = Vec<u128>;

/// An object of the functions, the first of which is the entry, by LLVM.
fn by_llvm(functions: &[Function], optimize: bool) -> Vec<u8> {
    let mut text = Text::default();
    functions.iter().for_each(|function| text.add(function));
    let ir = text.finish();
    let session = Session::new();
    let effort = if optimize { Effort::Full } else { Effort::None };
    let mut module = parse_text(&session, &ir).unwrap_or_else(|e| panic!("{e}\n{ir}"));
    codegen::generate(&session, &mut module, &["entry".into()], &host(), (effort, Default::default()), |_| {})
        .unwrap_or_else(|e| panic!("{e}\n{ir}"))
}

/// The same by Cranelift.
fn by_cranelift(functions: &[Function]) -> Vec<u8> {
    let (entry, others) = functions.split_first().unwrap();
    let module = Module { functions: others.to_vec(), ..Module::default() };
    cranelift::object(&module, &[entry], &crate::host_inputs()).unwrap_or_else(|e| panic!("{e}\n{entry}"))
}

/// What the object's entry makes of the data.
fn run(object: Vec<u8>, data: &mut Data) {
    let signature = KernelSignature { name: "k".into(), argument_block_size: 0, ..Default::default() };
    let kernels = vec![KernelInfo { signature, code: KernelCode::plain("entry") }];
    let compiled =
        CompiledProgram { objects: vec![object], kernels, data: Default::default(), log: String::new() };
    let kernel = crate::loaded(&compiled).unwrap().remove(0);
    let launch = Launch::whole(1, [0; 3], [1; 3], [1; 3]);
    let block = data.as_mut_ptr().cast::<u8>();
    // SAFETY: the functions use nothing but the data, in which each of their values has a place.
    unsafe { (kernel.entry)(block, &launch, 0, 1, block, block) };
}

/// As LLVM's tier has them: for minima of halves LLVM would call a library where the processor doesn't compute with halves.
fn decided(functions: &[Function]) -> Vec<Function> {
    let mut functions = functions.to_vec();
    functions.iter_mut().for_each(expand_minima);
    functions
}

fn legalized(functions: &[Function]) -> Vec<Function> {
    let legal = functions.iter().cloned().map(|mut function| {
        for (name, pass) in
            [("expand", expand_operations as fn(&mut Function) -> _), ("promote", promote_integers)]
        {
            pass(&mut function).unwrap_or_else(|e| panic!("{e}\n{function}"));
            verify(&function).unwrap_or_else(|e| panic!("behind {name}: {e}\n{function}"));
        }
        function
    });
    legal.collect()
}

/// Small numbers, numbers at the ends of ranges, and any others.
fn inputs(random: &mut Random) -> Data {
    let floats =
        [0.0, -0.0, 0.5, -0.5, 1.5, -2.5, 0.49999997, 8388609.0, f32::INFINITY, f32::MIN, 1e-40, 254.6];
    let input = |random: &mut Random| {
        let any = (0..8).fold(0u128, |bits, _| bits << 16 | u128::from(random.below(1 << 16)));
        match random.below(6) {
            0 => u128::from(random.below(5)),
            1 => u128::MAX - u128::from(random.below(5)),
            2 => (1 << random.below(128)) - u128::from(random.below(3) & 1),
            3 => u128::from(floats[random.below(floats.len() as u64) as usize].to_bits()),
            4 => u128::from(f64::from(floats[random.below(floats.len() as u64) as usize]).to_bits()),
            _ => any,
        }
    };
    (0..INPUTS).map(|_| input(random)).chain([0; OUTPUTS]).collect()
}

/// `SPIRULA_FUZZ=N` compares N functions instead; `SPIRULA_FUZZ=N..M` those of these numbers.
#[test]
fn legalized_functions_compute_the_same_bits() {
    let asked = std::env::var("SPIRULA_FUZZ").unwrap_or_default();
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    for seed in first.parse().unwrap_or(0)..end.parse().unwrap_or(40) {
        let functions = generate::functions(seed, &host());
        functions.iter().for_each(|function| {
            verify(function).unwrap_or_else(|e| panic!("function {seed}: {e}\n{function}"));
        });
        let mut expected = inputs(&mut Random::new(seed));
        let before = expected.clone();
        run(by_llvm(&decided(&functions), true), &mut expected);
        let legal = legalized(&functions);
        for (by, object) in [("LLVM", by_llvm(&legal, false)), ("Cranelift", by_cranelift(&legal))] {
            let mut data = before.clone();
            run(object, &mut data);
            let wrong = (0..data.len()).find(|&at| data[at] != expected[at]);
            if let Some(at) = wrong {
                let (found, expected) = (data[at], expected[at]);
                panic!(
                    "function {seed} by {by}, {at}: {found:#x} instead of {expected:#x}\n{}{}",
                    functions[0], legal[0]
                );
            }
        }
    }
}

/// The bits of the half that is nearest, the even one of two.
fn nearest_half(x: f64) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    if x.is_nan() {
        return sign | 0x7e00;
    }
    let x = x.abs().min(1e6);
    let exponent = ((x.to_bits() >> 52) as i32 - 1023).max(-14);
    // In units of the last of eleven digits; a carry goes into the exponent by itself.
    let units = (x * 2f64.powi(10 - exponent)).round_ties_even() as u32;
    let bits = units + ((exponent + 14) as u32) * 1024;
    sign | bits.min(0x7c00) as u16
}

/// LLVM would call a library. Numbers on borders between halves, and beside them.
#[test]
fn a_double_becomes_the_nearest_half() {
    if !host().has("f16c") {
        return;
    }
    let mut numbers =
        vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 65519.999, 65520.0, 1e-8, 5e-324];
    let mut random = Random::new(1);
    for _ in 0..400 {
        let half = random.below(1 << 11) as f64 + [0.0, 0.25, 0.5, 0.75][random.below(4) as usize];
        let border = half * 2f64.powi(random.below(34) as i32 - 25);
        let beside = [0.0, 1e-15, -1e-15, 1e-9, -1e-9][random.below(5) as usize];
        let sign = [1.0, -1.0][random.below(2) as usize];
        numbers.push(sign * border * (1.0 + beside));
    }
    let lines = (0..numbers.len()).map(|n| {
        let at = 16 * n;
        format!("  %{a}: ptr(global) = address %0 + {at}\n  %{b}: f64 = load %{a}, align 8\n  %{c}: f16 = fptrunc %{b}\n  store %{a}, %{c}, align 2\n",
            a = 3 * n + 1, b = 3 * n + 2, c = 3 * n + 3)
    });
    let text =
        format!("function \"entry\"(%0: ptr(global)) {{\nb0:\n{}  return\n}}\n", lines.collect::<String>());
    let function = spirula_kir::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut data: Data = numbers.iter().map(|number| number.to_bits().into()).collect();
    run(by_cranelift(&legalized(&[function])), &mut data);
    for (number, found) in numbers.into_iter().zip(data) {
        assert_eq!(found as u16, nearest_half(number), "{number:e}");
    }
}

/// What would be a call of a library that nobody provides is refused by name.
#[test]
fn what_can_not_be_done_is_named() {
    let refused = |operation: &str| {
        let text =
            format!("function \"f\"(%0: i128, %1: i100, %2: f64) {{\nb0:\n  %3: {operation}\n  return\n}}\n");
        let mut function = spirula_kir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{text}"));
        match expand_operations(&mut function) {
            Err(illegal) => illegal.to_string(),
            Ok(()) => panic!("nothing is wrong with {operation}"),
        }
    };
    for (operation, part) in [
        ("i128 = udiv %0, %0", "`udiv` of i128"),
        ("i100 = srem %1, %1", "`srem` of i100"),
        ("i100 = intrinsic fshl(%1, %1, %1)", "`urem` of i100"),
        ("f64 = sitofp %0", "`sitofp` from i128 to f64"),
        ("i100 = fptoui %2", "`fptoui` from f64 to i100"),
        ("i128 = intrinsic fptosi.sat(%2)", "`fptosi.sat` to i128"),
        ("{i128, i1} = intrinsic umul.with.overflow(%0, %0)", "`umul.with.overflow` of i128"),
    ] {
        assert!(refused(operation).contains(part), "{operation}: {}", refused(operation));
    }
}
