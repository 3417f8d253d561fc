//! Masked loads and stores that a processor has no instruction for, or a slow one. LLVM takes them apart: a branch, an access and a move
//! for each lane. Most masks are full nearly always, being a kernel's `if (i < n)`: then the access is one of a whole vector, behind
//! one branch.

use super::CodegenError;
use crate::llvm::{self, Function, Module, Session, Type};
use inkwell::targets::TargetMachine;
use spirula_interface::target::Target;

/// What puts the branches where the accesses were; those of one mask become one where they stand together.
const PASSES: &str = "always-inline,globaldce,function(early-cse,simplifycfg)";

/// Gives masked accesses of the processor's a branch for full masks, where that pays.
pub(super) fn branch<'s>(
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
                && let Some((own, definition)) = definition(rest, &name, function, target)
            {
                edit.set_name(*function, &own);
                definitions.push_str(&definition);
            }
        }
    });
    if definitions.is_empty() {
        return Ok(());
    }
    llvm::link_text(session, module, &definitions, machine)?;
    Ok(llvm::run_passes(module, PASSES, machine)?)
}

/// A name and a function that does what the intrinsic of that name does; None where that does it better.
fn definition(rest: &str, name: &str, function: Function, target: &Target) -> Option<(String, String)> {
    let (kind, _) = rest.split_once('.')?;
    let parameters = function.value_type().parameter_types();
    let vector = *match kind {
        "load" => parameters.get(2)?,
        "store" => parameters.first()?,
        _ => return None,
    };
    if is_quick(kind == "load", element_bits(vector)?, target) {
        return None;
    }
    let (own, mask) = (format!("spirula.masked.{rest}"), format!("<{} x i1>", vector.element_count()));
    // (The intrinsic says itself how its pointer is aligned, which doesn't matter on these processors.)
    let (head, whole, parts) = if kind == "load" {
        (
            format!("{vector} @{own}(ptr %p, {mask} %m, {vector} %o)"),
            format!("%w = load {vector}, ptr %p, align 1\n ret {vector} %w"),
            format!("%q = call {vector} @{name}(ptr align 1 %p, {mask} %f, {vector} %o)\n ret {vector} %q"),
        )
    } else {
        (
            format!("void @{own}({vector} %v, ptr %p, {mask} %m)"),
            format!("store {vector} %v, ptr %p, align 1\n ret void"),
            format!("call void @{name}({vector} %v, ptr align 1 %p, {mask} %f)\n ret void"),
        )
    };
    let bits = format!("i{}", vector.element_count());
    let text = format!(
        "define linkonce_odr {head} alwaysinline nounwind {{\n %f = freeze {mask} %m\n %b = bitcast {mask} %f to {bits}
         %a = icmp eq {bits} %b, -1\n br i1 %a, label %whole, label %parts\nwhole:\n {whole}\nparts:\n {parts}\n}}
         declare {} @{name}({})\n",
        function.value_type().return_type().map_or("void".to_owned(), |ty| ty.to_string()),
        parameters.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
    );
    Some((own, text))
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
        branch(&session, &mut module, &target, &machine).unwrap();
        llvm::verify(&module).unwrap();
        let text = llvm::print_text(&module);
        // What is left for other masks are the intrinsics.
        assert_eq!(text.matches("call <4 x float> @llvm.masked.load").count(), 1, "{text}");
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
}
