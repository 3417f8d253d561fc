//! Random scalar functions with every operation that the legalization knows, compiled with it and without: both must compute
//! the same bits. What is left undefined is not generated.

mod generate;

use super::super::llvm::Text;
use super::generate::Random;
use crate::codegen;
use crate::llvm::{Session, host, parse_text};
use generate::{INPUTS, OUTPUTS};
use spirula_interface::program::{CompiledProgram, KernelCode, KernelInfo, KernelSignature, Launch};
use spirula_kir::transform::legalize::{expand_operations, promote_integers};
use spirula_kir::{Function, verify};

/// Two places for each value: some are 16 bytes long.
type Data = Vec<u128>;

/// What the first function, which may call the others, makes of the data.
fn run(functions: &[Function], data: &mut Data, optimize: bool) {
    let mut text = Text::default();
    functions.iter().for_each(|function| text.add(function));
    let ir = text.finish();
    let session = Session::new();
    let mut module = parse_text(&session, &ir).unwrap_or_else(|e| panic!("{e}\n{ir}"));
    let object = codegen::generate(&session, &mut module, &["entry".into()], &host(), optimize)
        .unwrap_or_else(|e| panic!("{e}\n{ir}"));
    let signature = KernelSignature { name: "k".into(), argument_block_size: 0, ..Default::default() };
    let kernels = vec![KernelInfo { signature, code: KernelCode::plain("entry") }];
    let compiled =
        CompiledProgram { objects: vec![object], kernels, data: Default::default(), log: String::new() };
    let kernel = crate::loaded(&compiled).unwrap_or_else(|e| panic!("{e}\n{ir}")).remove(0);
    let launch = Launch::whole(1, [0; 3], [1; 3], [1; 3]);
    let block = data.as_mut_ptr().cast::<u8>();
    // SAFETY: the functions use nothing but the data, in which each of their values has a place.
    unsafe { (kernel.entry)(block, &launch, 0, 1, block, block) };
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
        let mut data = expected.clone();
        run(&functions, &mut expected, true);
        let legal = legalized(&functions);
        run(&legal, &mut data, false);
        let wrong = (0..data.len()).find(|&at| data[at] != expected[at]);
        if let Some(at) = wrong {
            let (found, expected) = (data[at], expected[at]);
            panic!(
                "function {seed}, {at}: {found:#x} instead of {expected:#x}\n{}{}",
                functions[0], legal[0]
            );
        }
    }
}
