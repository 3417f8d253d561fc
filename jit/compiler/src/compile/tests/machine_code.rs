//! Reads the machine code of fixtures of 32 bits, as both back ends make it for processors of each level, and proves of each access
//! that it is one of the linear memory and its guards, the function's stack, constants or the launch: what
//! `transform/linear_memory.rs` says by construction and the verifier says of Kernel IR, found out anew of what stands there at last.
//!
//! `object` relocates, `flow` follows control from the kernels' entries, `step`, `arithmetic` and `vector` say what instructions make of
//! what is known: of each register and each place of the stack a `value` (what it is counted from, and an interval), and the `facts`
//! by which loops end. What they don't know is anything, so that nothing is permitted by mistake.

mod arithmetic;
mod facts;
mod flow;
mod object;
mod refused;
mod state;
mod step;
mod value;
mod vector;

use super::*;
use flow::Refused;
use object::Image;
use spirula_interface::target::{Level, Target};
use std::path::Path;

/// All that the levels have.
const FEATURES: &str = "+64bit,+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3,+avx,+avx2,\
     +bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl";

/// How fixtures are built: the level, the tier, and the width of packs unless it is chosen.
type Build = (&'static str, Tier, Option<u32>);

const V2: Build = ("x86-64-v2", Tier::Optimized, None);
const V2_BY_8: Build = ("x86-64-v2", Tier::Optimized, Some(8));
const V3: Build = ("x86-64-v3", Tier::Optimized, None);
const V3_BY_8: Build = ("x86-64-v3", Tier::Optimized, Some(8));
const V4: Build = ("x86-64-v4", Tier::Optimized, None);
const V4_BY_8: Build = ("x86-64-v4", Tier::Optimized, Some(8));

/// A processor of that level, whichever the tests run on.
fn inputs_for(level: &str) -> Inputs {
    let all = Target { cpu: "any".into(), features: FEATURES.into(), threads: 1 };
    let target = Level::named(level).and_then(|level| all.at_level(level)).expect("a level");
    let mut inputs = Inputs { target, ..host_inputs() };
    inputs.options.addresses = AddressBits::Bits32;
    inputs.settings.verify = true;
    inputs
}

/// What a program's code does that is not proved to be within its memory.
fn refused(program: &CompiledProgram) -> Vec<Refused> {
    let images: Vec<Image> = program.objects.iter().map(|bytes| Image::new(bytes)).collect();
    let entries = program.kernels.iter().map(|kernel| kernel.code.symbol.as_str());
    let of_kernel = |entry: &str| {
        let image = images.iter().find(|image| image.functions.contains_key(entry));
        flow::check(image.expect("an object with the kernel"), entry)
    };
    entries.flat_map(of_kernel).collect()
}

/// Nothing of all fixtures is refused.
fn fixtures_are_proved(builds: &[Build]) {
    let mut fixtures = testing::fixtures_of("bc32");
    fixtures.extend(testing::fixtures_of_2_0("bc32"));
    fixtures.retain(|(name, _)| !["unresolved", "_main", "_lib"].iter().any(|part| name.contains(part)));
    let mut wrong = Vec::new();
    for (path, bytes) in fixtures {
        let name = Path::new(&path).file_stem().map_or(path.as_str().into(), |stem| stem.to_string_lossy());
        for how @ (level, tier, width) in builds {
            let mut inputs = inputs_for(level);
            (inputs.settings.vector_width, inputs.tier) = (*width, *tier);
            let program = build(&[&bytes], &inputs, Dump::default(), &mut Stages::begin());
            let program = program.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(program.data.addresses, AddressBits::Bits32, "{name}");
            assert!(
                program.kernels.iter().all(|kernel| kernel.code.tier == *tier || *tier == Tier::Baseline)
            );
            wrong.extend(
                refused(&program)
                    .into_iter()
                    .map(|refused| format!("{name} {how:?}: {}: {}", refused.function, refused.why)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn code_of_level_2_stays_in_linear_memory() {
    fixtures_are_proved(&[V2]);
}

#[test]
fn code_of_level_3_stays_in_linear_memory() {
    fixtures_are_proved(&[V3]);
}

#[test]
fn baseline_code_stays_in_linear_memory() {
    fixtures_are_proved(&[("x86-64-v3", Tier::Baseline, None)]);
}

#[test]
fn code_of_level_4_stays_in_linear_memory() {
    fixtures_are_proved(&[V4_BY_8]);
}

#[test]
#[ignore = "two minutes on one core"]
fn code_of_level_2_in_each_tier_stays_in_linear_memory() {
    fixtures_are_proved(&[("x86-64-v2", Tier::Baseline, None), V2, V2_BY_8]);
}

#[test]
#[ignore = "two minutes on one core"]
fn code_of_level_3_in_each_tier_stays_in_linear_memory() {
    fixtures_are_proved(&[("x86-64-v3", Tier::Baseline, None), V3, V3_BY_8]);
}

#[test]
#[ignore = "two minutes on one core"]
fn code_of_level_4_in_each_tier_stays_in_linear_memory() {
    fixtures_are_proved(&[("x86-64-v4", Tier::Baseline, None), V4, V4_BY_8]);
}

/// The same kernel's code for 64 bits, which accesses what its arguments say.
#[test]
fn code_of_64_bits_is_refused() {
    for tier in [Tier::Baseline, Tier::Optimized] {
        let mut inputs = Inputs { tier, ..inputs_for("x86-64-v3") };
        inputs.options.addresses = AddressBits::Bits64;
        let refused = refused(&built(SCALE, &inputs).unwrap());
        assert!(refused.iter().any(|refused| refused.why.contains("bytes are read at")), "{tier:?}");
    }
}
