//! Masked loads and stores that a processor has no instruction for, or a slow one. LLVM takes them apart: a branch, an access and a move
//! for each lane. Most masks are full nearly always, being a kernel's `if (i < n)`: then the access is one of a whole vector, behind
//! one branch. Accesses that are taken apart anyway need no branches for their lanes: a lane that is masked out accesses a place that
//! nobody else does. (Masks that differ from pack to pack cost twenty cycles for each branch that is expected wrongly; and a kernel with
//! a thousand gathers has some ten thousand blocks otherwise, for which LLVM takes half a minute.)

use super::CodegenError;
use crate::llvm::{self, Function, Module, Session, Type};
use inkwell::targets::TargetMachine;
use spirula_interface::target::Target;

/// What puts the branches where the accesses were; those of one mask become one where they stand together.
const PASSES: &str = "always-inline,globaldce,function(early-cse,simplifycfg)";

/// Gives masked accesses a branch for full masks, and lanes that are accessed one by one no branches, where the processor has no instruction.
pub(super) fn lower<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    target: &Target,
    machine: &TargetMachine,
) -> Result<(), CodegenError> {
    let mut definitions = String::new();
    module.edit(|edit| {
        for function in edit.functions().into_iter().filter(|function| function.has_uses()) {
            let name = function.name();
            if let Some(rest) = name.strip_prefix("llvm.masked.")
                && let Some(body) = body(rest, function, target)
            {
                let own = format!("spirula.masked.{rest}");
                definitions.push_str(&definition(&own, &name, function, &body));
                edit.set_name(*function, &own);
            }
        }
    });
    if definitions.is_empty() {
        return Ok(());
    }
    definitions.push_str(UNPREDICTABLE);
    llvm::link_text(session, module, &definitions, machine)?;
    Ok(llvm::run_passes(module, PASSES, machine)?)
}

/// A function of that name and with that body that does what the intrinsic does.
fn definition(own: &str, name: &str, function: Function, body: &str) -> String {
    let parameters: Vec<String> =
        function.value_type().parameter_types().iter().map(Type::to_string).collect();
    let named: Vec<String> =
        parameters.iter().zip(["%0", "%1", "%2"]).map(|(ty, name)| format!("{ty} {name}")).collect();
    let result = function.value_type().return_type().map_or("void".to_owned(), |ty| ty.to_string());
    format!(
        "define linkonce_odr {result} @{own}({}) alwaysinline nounwind {{\n{}}}\ndeclare {result} @{name}({})\n",
        named.join(", "),
        body.replace("@intrinsic", &format!("@{name}")),
        parameters.join(", "),
    )
}

/// What to do instead of the intrinsic, which it calls `@intrinsic`; None where that does it better. (The intrinsic says itself how its
/// pointers are aligned, which doesn't matter on these processors.)
fn body(rest: &str, function: Function, target: &Target) -> Option<String> {
    let (kind, _) = rest.split_once('.')?;
    let parameters = function.value_type().parameter_types();
    let loads = matches!(kind, "load" | "gather");
    let vector = *parameters.get(if loads { 2 } else { 0 })?;
    let (bits, lanes) = (element_bits(vector)?, vector.element_count());
    let mask = format!("<{lanes} x i1>");
    Some(match kind {
        "load" | "store" if is_quick(loads, bits, target) => return None,
        "load" => behind_a_branch(
            (lanes, "%1"),
            &format!("%w = load {vector}, ptr %0, align 1\n ret {vector} %w"),
            match has_instruction(bits, target) || lanes > MOST_LANES {
                true => Parts::Intrinsic(format!(
                    "%q = call {vector} @intrinsic(ptr align 1 %0, {mask} %f, {vector} %2)\n ret {vector} %q"
                )),
                false => load_lanes(vector, (lanes, bits)),
            },
        ),
        "store" => behind_a_branch(
            (lanes, "%2"),
            &format!("store {vector} %0, ptr %1, align 1\n ret void"),
            match has_instruction(bits, target) || lanes > MOST_LANES {
                true => Parts::Intrinsic(format!(
                    "call void @intrinsic({vector} %0, ptr align 1 %1, {mask} %f)\n ret void"
                )),
                false => store_lanes(vector, (lanes, bits)),
            },
        ),
        "gather" | "scatter" if has_lanes(loads, bits, target) => return None,
        "gather" => format!(
            "{}  %l = call {vector} @intrinsic(<{lanes} x ptr> align 1 %p, {mask} splat (i1 true), {vector} poison)
  %r = select {mask} %1, {vector} %l, {vector} %2\n  ret {vector} %r\n",
            elsewhere_if_not(lanes, bits, ("%1", "%0")),
        ),
        "scatter" => format!(
            "{}  call void @intrinsic({vector} %0, <{lanes} x ptr> align 1 %p, {mask} splat (i1 true))\n  ret void\n",
            elsewhere_if_not(lanes, bits, ("%2", "%1")),
        ),
        _ => return None,
    })
}

/// What is done where not all lanes are active.
enum Parts {
    Intrinsic(String),
    /// Lane by lane, with a place `%n` of so many bits for lanes that are masked out.
    Lanes(String, u32),
}

/// One thing for full masks, and one for others.
fn behind_a_branch((lanes, mask): (u64, &str), whole: &str, parts: Parts) -> String {
    // A variable of the first block is one of the kernel's; of another one it would be made each time.
    let (variable, parts) = match parts {
        Parts::Intrinsic(call) => (String::new(), call),
        Parts::Lanes(accesses, bits) => (format!("  %n = alloca i{bits}\n"), accesses),
    };
    format!(
        "{variable}  %f = freeze <{lanes} x i1> {mask}\n  %b = bitcast <{lanes} x i1> %f to i{lanes}\n  %a = icmp eq i{lanes} %b, -1
  br i1 %a, label %whole, label %parts\nwhole:\n {whole}\nparts:\n {parts}\n"
    )
}

/// One lane after the other of a block at `%0`, what is masked out from `%2`; the mask's bits are `%b`.
fn load_lanes(vector: Type, (lanes, bits): (u64, u32)) -> Parts {
    let element = vector.scalar();
    let lane = |n: u64| {
        let before = if n == 0 { "poison".to_owned() } else { format!("%v{}", n - 1) };
        format!(
            "{} %l{n} = load {element}, ptr %p{n}, align 1\n %v{n} = insertelement {vector} {before}, {element} %l{n}, i64 {n}\n",
            place("%0", n, (lanes, bits))
        )
    };
    let loads: String = (0..lanes).map(lane).collect();
    let last = format!("%v{}", lanes - 1);
    let all = format!("%r = select <{lanes} x i1> %f, {vector} {last}, {vector} %2\n ret {vector} %r");
    Parts::Lanes(loads + " " + &all, bits)
}

/// Likewise, of `%0` to a block at `%1`.
fn store_lanes(vector: Type, (lanes, bits): (u64, u32)) -> Parts {
    let element = vector.scalar();
    let lane = |n: u64| {
        format!(
            "{} %l{n} = extractelement {vector} %0, i64 {n}\n store {element} %l{n}, ptr %p{n}, align 1\n",
            place("%1", n, (lanes, bits))
        )
    };
    let stores: String = (0..lanes).map(lane).collect();
    Parts::Lanes(stores + " ret void", bits)
}

/// What says that a selection is to be no branch.
const UNPREDICTABLE: &str = "!0 = !{}\n";

/// `%p` of that lane: its place in a block where its bit of `%b` is set, else `%n`.
fn place(block: &str, lane: u64, (lanes, bits): (u64, u32)) -> String {
    format!(
        " %t{lane} = and i{lanes} %b, {}\n %i{lane} = icmp ne i{lanes} %t{lane}, 0
  %g{lane} = getelementptr i8, ptr {block}, i64 {}\n %p{lane} = select i1 %i{lane}, ptr %g{lane}, ptr %n, !unpredictable !0\n",
        1u64 << lane,
        lane * u64::from(bits.div_ceil(8)),
    )
}

/// Pointers as `%p`: those of a mask's lanes, and for others one to a variable of an element that is used for nothing.
fn elsewhere_if_not(lanes: u64, bits: u32, (mask, pointers): (&str, &str)) -> String {
    format!(
        "  %n = alloca i{bits}\n  %q = insertelement <{lanes} x ptr> poison, ptr %n, i64 0
  %e = shufflevector <{lanes} x ptr> %q, <{lanes} x ptr> poison, <{lanes} x i32> zeroinitializer
  %p = select <{lanes} x i1> {mask}, <{lanes} x ptr> {pointers}, <{lanes} x ptr> %e\n"
    )
}

/// Of a vector of numbers or pointers.
fn element_bits(vector: Type) -> Option<u32> {
    let element = vector.scalar().to_string();
    match element.as_str() {
        "half" | "bfloat" => Some(16),
        "float" => Some(32),
        "double" | "ptr" => Some(64),
        _ => element.strip_prefix('i')?.parse().ok(),
    }
}

/// Whether the processor has an instruction of which it doesn't matter that it is masked. (AVX's stores take AMD's processors a dozen
/// cycles.)
fn is_quick(load: bool, bits: u32, target: &Target) -> bool {
    match bits {
        32 | 64 => target.has("avx512f") || (load && target.has("avx")),
        _ => target.has("avx512bw"),
    }
}

/// Longer vectors, as those of components of as many work-items, are LLVM's to take apart: a mask's bits are tested in one register.
const MOST_LANES: u64 = 64;

/// Whether it has one, be it a slow one.
fn has_instruction(bits: u32, target: &Target) -> bool {
    matches!(bits, 32 | 64) && target.has("avx")
}

/// Whether LLVM gathers or scatters such elements by an instruction, rather than one by one.
fn has_lanes(load: bool, bits: u32, target: &Target) -> bool {
    let facts = target.facts();
    bits >= 32 && if load { facts.gathers } else { facts.scatters }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
        declare void @llvm.masked.store.v4f32.p0(<4 x float>, ptr, <4 x i1>)
        declare <8 x i8> @llvm.masked.load.v8i8.p0(ptr, <8 x i1>, <8 x i8>)
        define void @f(ptr %p, ptr %q, <4 x i32> %x, <8 x i1> %n) {
          %m = icmp slt <4 x i32> %x, splat (i32 7)
          %a = call <4 x float> @llvm.masked.load.v4f32.p0(ptr align 4 %p, <4 x i1> %m, <4 x float> poison)
          call void @llvm.masked.store.v4f32.p0(<4 x float> %a, ptr align 4 %q, <4 x i1> %m)
          %b = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr %q, <8 x i1> %n, <8 x i8> zeroinitializer)
          store <8 x i8> %b, ptr %p
          ret void
        }";

    /// Whole loads of floats and bytes and whole stores of floats that there are on a processor.
    fn whole(features: &str) -> [usize; 3] {
        let session = Session::new();
        let target = Target { cpu: "x86-64".into(), features: features.into(), threads: 1 };
        let machine = llvm::machine(&target, true).unwrap();
        let mut module = llvm::parse_text(&session, TEXT).unwrap();
        lower(&session, &mut module, &target, &machine).unwrap();
        llvm::verify(&module).unwrap();
        let text = llvm::print_text(&module);
        // What is left for other masks are the intrinsics, or lanes.
        let lanes = text.matches("= load float").count() / 4;
        assert_eq!(text.matches("call <4 x float> @llvm.masked.load").count() + lanes, 1, "{text}");
        assert!(!text.contains("@spirula.masked"), "{text}");
        ["= load <4 x float>", "= load <8 x i8>", "store <4 x float>"].map(|what| text.matches(what).count())
    }

    #[test]
    fn full_masks_have_a_branch_where_the_processor_takes_masked_accesses_apart() {
        assert_eq!(whole("+sse4.1"), [1, 1, 1]);
        assert_eq!(whole("+avx,+avx2"), [0, 1, 1]);
        assert_eq!(whole("+avx512f,+avx512vl"), [0, 1, 0]);
        assert_eq!(whole("+avx512f,+avx512bw,+avx512vl"), [0, 0, 0]);
    }

    #[test]
    fn masks_of_more_bits_than_a_register_are_taken_apart_by_llvm() {
        let lowered = |lanes: u32| {
            let text = format!(
                "declare void @llvm.masked.store.v{lanes}i8.p0(<{lanes} x i8>, ptr, <{lanes} x i1>)
                define void @f(ptr %p, <{lanes} x i8> %x, <{lanes} x i1> %m) {{
                  call void @llvm.masked.store.v{lanes}i8.p0(<{lanes} x i8> %x, ptr %p, <{lanes} x i1> %m)
                  ret void\n}}"
            );
            let session = Session::new();
            let target = Target { cpu: "x86-64".into(), features: "+sse4.1".into(), threads: 1 };
            let machine = llvm::machine(&target, true).unwrap();
            let mut module = llvm::parse_text(&session, &text).unwrap();
            lower(&session, &mut module, &target, &machine).unwrap();
            llvm::verify(&module).unwrap();
            let text = llvm::print_text(&module);
            (text.matches("store i8").count(), text.matches("call void @llvm.masked.store").count())
        };
        assert_eq!(lowered(64), (64, 0));
        assert_eq!(lowered(256), (0, 1));
    }

    #[test]
    fn lanes_of_a_block_that_are_accessed_one_by_one_have_no_branches() {
        // In loops LLVM makes branches of selections that it takes for predictable ones.
        let text = "declare <8 x i8> @llvm.masked.load.v8i8.p0(ptr, <8 x i1>, <8 x i8>)
            declare void @llvm.masked.store.v8i8.p0(<8 x i8>, ptr, <8 x i1>)
            define void @f(ptr %p, ptr %q, i64 %n) {
              br label %loop
            loop:
              %i = phi i64 [ 0, %0 ], [ %next, %loop ]
              %next = add i64 %i, 8
              %x = getelementptr i8, ptr %p, i64 %i
              %y = getelementptr i8, ptr %q, i64 %i
              %v = load <8 x i8>, ptr %x
              %m = icmp slt <8 x i8> %v, splat (i8 7)
              %a = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr %y, <8 x i1> %m, <8 x i8> zeroinitializer)
              call void @llvm.masked.store.v8i8.p0(<8 x i8> %a, ptr %x, <8 x i1> %m)
              %c = icmp ult i64 %next, %n
              br i1 %c, label %loop, label %end
            end:
              ret void
            }";
        let session = Session::new();
        let target = Target { cpu: "znver3".into(), features: "+avx,+avx2".into(), threads: 1 };
        let machine = llvm::machine(&target, true).unwrap();
        let mut module = llvm::parse_text(&session, text).unwrap();
        lower(&session, &mut module, &target, &machine).unwrap();
        let assembly = llvm::emit(&mut module, &machine, inkwell::targets::FileType::Assembly).unwrap();
        let assembly = String::from_utf8(assembly).unwrap();
        let branches = assembly.lines().filter(|line| line.trim().starts_with('j')).count();
        // Those between whole accesses and lanes, and the loop's. There are sixteen lanes.
        assert!(branches < 8, "{assembly}");
    }

    /// Branches and vector instructions of a gather and a scatter of elements, each with a mask, on a processor.
    fn lanes_of(element: &str, (cpu, features): (&str, &str)) -> [usize; 3] {
        let text = format!(
            "declare <8 x {element}> @llvm.masked.gather.v8{element}.v8p0(<8 x ptr>, <8 x i1>, <8 x {element}>)
            declare void @llvm.masked.scatter.v8{element}.v8p0(<8 x {element}>, <8 x ptr>, <8 x i1>)
            define void @f(<8 x ptr> %p, <8 x ptr> %q, <8 x i1> %m, <8 x i1> %n) {{
              %a = call <8 x {element}> @llvm.masked.gather.v8{element}.v8p0(<8 x ptr> %p, <8 x i1> %m, <8 x {element}> poison)
              call void @llvm.masked.scatter.v8{element}.v8p0(<8 x {element}> %a, <8 x ptr> %q, <8 x i1> %n)
              ret void\n}}"
        );
        let session = Session::new();
        let target = Target { cpu: cpu.into(), features: features.into(), threads: 1 };
        let machine = llvm::machine(&target, true).unwrap();
        let mut module = llvm::parse_text(&session, &text).unwrap();
        lower(&session, &mut module, &target, &machine).unwrap();
        llvm::verify(&module).unwrap();
        let assembly = llvm::emit(&mut module, &machine, inkwell::targets::FileType::Assembly).unwrap();
        let assembly = String::from_utf8(assembly).unwrap();
        let count = |starts: &[&str]| {
            assembly.lines().filter(|line| starts.iter().any(|start| line.trim().starts_with(start))).count()
        };
        [count(&["j"]), count(&["vpgather"]), count(&["vpscatter"])]
    }

    #[test]
    fn gathers_and_scatters_that_are_taken_apart_have_no_branches() {
        let v4 = ("x86-64-v4", "+avx2,+avx512f,+avx512bw,+avx512dq,+avx512vl");
        assert_eq!(lanes_of("i8", v4), [0, 0, 0]);
        assert_eq!(lanes_of("i32", v4), [0, 1, 1]);
        assert_eq!(lanes_of("i32", ("skylake", "+avx,+avx2")), [0, 2, 0]);
        assert_eq!(lanes_of("i32", ("znver3", "+avx,+avx2")), [0, 0, 0]);
        assert_eq!(lanes_of("i64", ("x86-64", "+sse4.1")), [0, 0, 0]);
    }
}
