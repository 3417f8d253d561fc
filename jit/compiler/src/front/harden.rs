//! Hardening: SPIR's meaning made explicit before any LLVM pass may use undefined behaviour. OpenCL C defines
//! what LLVM doesn't (shift amounts), must not trap where C may (division), and its barriers and calling conventions
//! are more than SPIR 1.2's bare declarations say.

use super::call_graph::CallGraph;
use super::{HardenedModule, SpirModule};
use crate::builtin;
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Call, Edit, Function, Instruction, Parameter, Type, Value};
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use inkwell::targets::TargetMachine;
use spirula_interface::options::MathOptions;

/// Attributes that mean to us what they mean to SPIR; everything else a producer wrote is stale or a hint.
///
/// `noalias` goes as well: to LLVM, a barrier can't change what a `restrict` pointer points to, but another work-item
/// does. The metadata keeps the qualifier for passes that know the difference.
const KEPT_ATTRIBUTES: [&str; 2] = ["alwaysinline", "noinline"];

/// Makes an executable's module safe to optimize for the machine.
pub fn harden<'s>(spir: SpirModule<'s>, machine: &TargetMachine) -> HardenedModule<'s> {
    let SpirModule { mut module, kernels, math, is_debug, checks } = spir;
    let addresses = llvm::addresses(&module);
    llvm::set_target(&mut module, machine, addresses);
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    module.edit(|edit| {
        own_symbols(edit, &names);
        for function in edit.functions().into_iter().filter(|f| !f.name().starts_with("llvm.")) {
            declare(edit, function);
        }
        mark_convergent(edit);
        let fast_math = fast_math_flags(math);
        for instruction in edit.defined_functions().into_iter().flat_map(|function| function.instructions()) {
            harden_instruction(edit, instruction, fast_math);
        }
    });
    HardenedModule { module, kernels, math, is_debug, checks }
}

const KERNEL_PREFIX: &str = "spirula.kernel.";

/// The symbol of a kernel from here on: no library function can be called so.
pub(crate) fn kernel_symbol(name: &str) -> String {
    format!("{KERNEL_PREFIX}{name}")
}

/// All that the program defines becomes internal to it, so that no symbol of the builtins can clash with it, and so that
/// LLVM doesn't take a function called `floor` for the C library's. Kernels are visible under a reserved name.
fn own_symbols(edit: Edit, kernels: &[&str]) {
    for function in edit.defined_functions() {
        let name = function.name();
        if kernels.contains(&name.as_str()) {
            edit.set_name(*function, &kernel_symbol(&name));
            edit.set_linkage(*function, LLVMLinkage::LLVMExternalLinkage);
        } else {
            edit.set_linkage(*function, LLVMLinkage::LLVMInternalLinkage);
        }
    }
    own_globals(edit);
}

/// The same for variables; LLVM's lists of symbols to keep go.
pub(super) fn own_globals(edit: Edit) {
    for global in edit.globals() {
        if global.name().starts_with("llvm.") {
            edit.erase_global(global);
        } else if !global.is_declaration() {
            edit.set_linkage(*global, LLVMLinkage::LLVMInternalLinkage);
        }
    }
}

/// Calling convention, attributes and by-value parameters of a function.
fn declare<'e>(edit: Edit<'e>, function: Function<'e>) {
    let (name, layout) = (function.name(), edit.layout());
    let by_value: Vec<_> = (0..function.parameters().len() as u32)
        .map(|i| {
            let alignment = function.parameter_integer_attribute(i, "align");
            (function.parameter_type_attribute(i, "byval"), alignment)
        })
        .collect();
    edit.use_c_convention(function);
    edit.drop_attributes(function, &KEPT_ATTRIBUTES);
    let added = builtin_attributes(&name);
    if function.is_declaration() {
        edit.add_attributes(function, added);
        return;
    }
    for (index, (ty, alignment)) in by_value.into_iter().enumerate() {
        let Some(ty) = ty else { continue };
        let natural = layout.alignment(ty);
        let alignment = alignment.and_then(|a| u32::try_from(a).ok()).map_or(natural, |a| a.max(natural));
        copy_by_value(edit, function.parameters()[index], ty, alignment);
        if name.starts_with(KERNEL_PREFIX) {
            // Nothing writes to the argument block: where the copy is only read, LLVM drops it.
            let place = [Attribute::Align(alignment), Attribute::Dereferenceable(layout.size(ty))];
            edit.add_parameter_attributes(function, index as u32, &[Attribute::NoAlias, Attribute::ReadOnly]);
            edit.add_parameter_attributes(function, index as u32, &place);
        }
    }
}

/// What we know of a builtin and its declaration doesn't say.
fn builtin_attributes(name: &str) -> &'static [Attribute] {
    if builtin::is_barrier(name) {
        &[Attribute::Convergent, Attribute::NoUnwind]
    } else if builtin::is_pure(name) {
        &[Attribute::NoMemory, Attribute::NoUnwind, Attribute::WillReturn]
    } else {
        &[]
    }
}

/// What reaches a barrier is convergent, too: no pass may make a call of it two, one for each way that led there. Work-items that went
/// different ways would meet at different barriers.
fn mark_convergent(edit: Edit) {
    let barriers =
        edit.functions().into_iter().filter(|f| f.is_declaration() && builtin::is_barrier(&f.name()));
    for function in CallGraph::new(*edit).reaching(barriers) {
        edit.add_attributes(function, &[Attribute::Convergent]);
    }
}

/// The callee makes the copy that `byval` promises: a kernel's arguments lie in a block that all work-items share.
fn copy_by_value<'e>(edit: Edit<'e>, parameter: Parameter<'e>, ty: Type<'e>, alignment: u32) {
    let users = parameter.users();
    let entry = parameter.function().blocks().first().map(|block| block.instructions());
    let Some(&first) = entry.as_ref().and_then(|entry| entry.first()) else { return };
    if users.is_empty() {
        return;
    }
    let builder = edit.before(first);
    let copy = builder.alloca(ty, alignment);
    builder.copy_memory(copy, *parameter, alignment, edit.layout().size(ty));
    edit.replace_in(&users, *parameter, copy);
}

fn harden_instruction<'e>(edit: Edit<'e>, instruction: Instruction<'e>, fast_math: u32) {
    use LLVMOpcode::*;
    match instruction.opcode() {
        LLVMShl | LLVMLShr | LLVMAShr => mask_shift(edit, instruction),
        LLVMSDiv | LLVMSRem => guard_division(edit, instruction, true),
        LLVMUDiv | LLVMURem => guard_division(edit, instruction, false),
        LLVMFPToSI | LLVMFPToUI => freeze_result(edit, instruction),
        _ => {}
    }
    if let Some(call) = instruction.as_call() {
        harden_call(edit, call);
    }
    // Scopes of `restrict`, which a compiler that inlined has left: see `KEPT_ATTRIBUTES`.
    edit.drop_attachments(instruction, &["alias.scope", "noalias"]);
    if fast_math != 0 {
        edit.add_fast_math(instruction, fast_math);
    }
}

/// OpenCL C 6.3.j: only the low bits of the amount count.
fn mask_shift<'e>(edit: Edit<'e>, shift: Instruction<'e>) {
    let Some(amount) = shift.operand(1) else { return };
    let width = shift.ty().scalar().integer_width();
    if !width.is_power_of_two() {
        return; // Only an optimizer makes such types, and it knows the amount.
    }
    let masked = edit.before(shift).and(amount, shift.ty().integer(u64::from(width) - 1));
    edit.set_operand(shift, 1, masked);
}

/// Division by zero and of the least integer by -1 have no defined value in OpenCL C (6.3.a), but mustn't trap: divides by
/// one instead.
fn guard_division<'e>(edit: Edit<'e>, division: Instruction<'e>, signed: bool) {
    let (Some(dividend), Some(divisor)) = (division.operand(0), division.operand(1)) else { return };
    if is_safe_divisor(divisor, signed) {
        return;
    }
    let ty = division.ty();
    let builder = edit.before(division);
    if signed && !divisor.is_constant() {
        return guard_signed(edit, division, divisor);
    }
    let divisor = if divisor.is_constant_integer() { divisor } else { builder.freeze(divisor) };
    let mut bad = builder.equal(divisor, ty.integer(0));
    if signed {
        let least = builder.equal(dividend, ty.minimum());
        let minus_one = builder.equal(divisor, ty.minus_one());
        let overflow = builder.and(builder.freeze(least), minus_one);
        bad = builder.or(bad, overflow);
    }
    let safe = builder.select(bad, ty.integer(1), divisor);
    edit.set_operand(division, 1, safe);
}

/// The same for a divisor that is no constant, whatever is divided: where all work-items divide by the same, they still do. By -1
/// nothing is divided; its remainders are those of 1, and its quotients the negative numbers, the least integer's itself.
fn guard_signed<'e>(edit: Edit<'e>, division: Instruction<'e>, divisor: Value<'e>) {
    let ty = division.ty();
    let builder = edit.before(division);
    let divisor = builder.freeze(divisor);
    let minus_one = builder.equal(divisor, ty.minus_one());
    let replaced = builder.or(builder.equal(divisor, ty.integer(0)), minus_one);
    let safe = builder.select(replaced, ty.integer(1), divisor);
    edit.set_operand(division, 1, safe);
    let (users, dividend) = (division.users(), division.operand(0));
    if division.opcode() == LLVMOpcode::LLVMSDiv
        && let (Some(dividend), Some(builder)) = (dividend, edit.after(division))
    {
        let negative = builder.subtract(ty.integer(0), dividend);
        edit.replace_in(&users, *division, builder.select(minus_one, negative, *division));
    }
}

fn is_safe_divisor(divisor: Value, signed: bool) -> bool {
    let lane_is_safe = |lane: Value| lane.constant_signed().is_some_and(|n| n != 0 && !(signed && n == -1));
    if divisor.ty().is_vector() {
        let lanes = divisor.ty().element_count() as u32;
        return (0..lanes).all(|i| divisor.aggregate_element(i).is_some_and(lane_is_safe));
    }
    lane_is_safe(divisor)
}

/// Out of range a conversion has any value (6.2.3.3), but one value: poison would spread to every use.
fn freeze_result<'e>(edit: Edit<'e>, conversion: Instruction<'e>) {
    let users = conversion.users();
    let Some(builder) = edit.after(conversion) else { return };
    edit.replace_in(&users, *conversion, builder.freeze(*conversion));
}

fn harden_call<'e>(edit: Edit<'e>, call: Call<'e>) {
    let Some(callee) = call.called_function() else {
        // A block's function, as all functions from here on.
        edit.use_c_convention(call);
        edit.drop_attributes(call, &[]);
        return;
    };
    let name = callee.name();
    if name.starts_with("llvm.") {
        return;
    }
    edit.use_c_convention(call);
    edit.drop_attributes(call, &[]);
    edit.add_attributes(call, builtin_attributes(&name));
}

/// LLVM's fast-math bits for the options that allow them (OpenCL 1.2, 5.6.4.3).
fn fast_math_flags(math: MathOptions) -> u32 {
    use inkwell::llvm_sys::*;
    let quotients = match math.contains(MathOptions::CORRECTLY_ROUNDED) {
        true => 0,
        false => LLVMFastMathAllowReciprocal | LLVMFastMathApproxFunc,
    };
    [
        (MathOptions::MAD_ENABLE, LLVMFastMathAllowContract),
        (MathOptions::NO_SIGNED_ZEROS, LLVMFastMathNoSignedZeros),
        (MathOptions::UNSAFE_MATH, LLVMFastMathAllowReassoc | quotients),
        (MathOptions::FINITE_MATH_ONLY, LLVMFastMathNoNaNs | LLVMFastMathNoInfs),
    ]
    .into_iter()
    .filter_map(|(option, flags)| math.contains(option).then_some(flags))
    .fold(0, |all, flags| all | flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{metadata, testing};
    use crate::llvm::{Module, Session};
    use spirula_interface::check::Checks;

    /// The hardened text of a module, which LLVM accepts.
    fn hardened(text: &str, math: MathOptions) -> String {
        let session = Session::new();
        let module = testing::module(&session, text);
        let kernels = metadata::kernels(&module).unwrap();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let result =
            harden(SpirModule { module, kernels, math, is_debug: false, checks: Checks::NONE }, &machine);
        llvm::verify(&result.module).unwrap_or_else(|e| panic!("{e}"));
        llvm::print_text(&result.module)
    }

    fn body(instructions: &str) -> String {
        let text = format!(
            "define spir_func void @f(i32 %a, i32 %b, <2 x i64> %v, <2 x i64> %w, float %x, ptr %p) {{\n{instructions}\nret void\n}}"
        );
        hardened(&text, MathOptions::NONE)
    }

    #[test]
    fn shift_amounts_are_masked() {
        assert!(body("%r = shl i32 %a, %b").contains("and i32 %b, 31"));
        assert!(body("%r = lshr <2 x i64> %v, %w").contains("and <2 x i64> %w, splat (i64 63)"));
        assert!(body("%r = ashr i32 %a, 33").contains("%r = ashr i32 %a, 1"));
        assert!(body("%r = shl <2 x i64> %v, <i64 65, i64 2>").contains("shl <2 x i64> %v, <i64 1, i64 2>"));
        assert!(body("%t = trunc i32 %a to i24\n%r = shl i24 %t, 3").contains("shl i24 %t, 3"));
    }

    #[test]
    fn division_is_guarded_unless_it_is_safe() {
        let signed = body("%r = sdiv i32 %a, %b");
        for part in ["freeze i32 %b", "icmp eq i32 %1, -1", "i32 1, i32 %1", "sub i32 0, %a"] {
            assert!(signed.contains(part), "{part} in {signed}");
        }
        assert!(!body("%r = srem i32 %a, %b").contains("sub"));
        let unsigned = body("%r = urem <2 x i64> %v, %w");
        assert!(unsigned.contains("icmp eq <2 x i64>") && unsigned.contains("select <2 x i1>"), "{unsigned}");
        assert!(!unsigned.contains("9223372036854775808"));
        for safe in ["sdiv i32 %a, 7", "udiv i32 %a, -1", "srem <2 x i64> %v, <i64 3, i64 -2>"] {
            assert!(!body(&format!("%r = {safe}")).contains("select"), "{safe}");
        }
        for unsafe_one in ["sdiv i32 %a, -1", "udiv <2 x i64> %v, <i64 3, i64 undef>"] {
            assert!(body(&format!("%r = {unsafe_one}")).contains("select"), "{unsafe_one}");
        }
        assert!(body("%r = udiv i32 %a, 0").contains("%r = udiv i32 %a, 1"));
    }

    #[test]
    fn conversions_to_integers_are_frozen() {
        let text = body("%r = fptosi float %x to i32\nstore i32 %r, ptr %p");
        assert!(text.contains("%1 = freeze i32 %r") && text.contains("store i32 %1, ptr %p"), "{text}");
    }

    #[test]
    fn barriers_become_convergent_and_pure_builtins_pure() {
        let text = hardened(
            "declare spir_func void @_Z7barrierj(i32) #0\ndeclare spir_func i64 @_Z12get_local_idj(i32)
             define spir_kernel void @k() {\n call spir_func void @_Z7barrierj(i32 1) #0
             %x = call spir_func i64 @_Z12get_local_idj(i32 0)\n ret void\n}\nattributes #0 = { nounwind memory(none) }",
            MathOptions::NONE,
        );
        assert!(text.contains("{ convergent nounwind }"), "{text}");
        assert!(text.contains("{ nounwind willreturn memory(none) }"), "{text}");
        assert_eq!(text.matches("#0").count(), 3, "declaration, call and definition: {text}");
    }

    #[test]
    fn what_reaches_a_barrier_is_convergent() {
        let text = hardened(
            "declare spir_func void @_Z7barrierj(i32)
             define spir_func void @other() {\n ret void\n}
             define spir_func void @sync() {\n call spir_func void @_Z7barrierj(i32 1)\n ret void\n}
             define spir_func void @outer() {\n call spir_func void @other()\n call spir_func void @sync()\n ret void\n}",
            MathOptions::NONE,
        );
        let convergent = text.lines().find_map(|line| line.strip_suffix("= { convergent }"));
        let convergent =
            convergent.and_then(|line| line.split_whitespace().last()).unwrap_or_else(|| panic!("{text}"));
        for (name, reaches) in [("sync", true), ("outer", true), ("other", false)] {
            assert_eq!(text.contains(&format!("@{name}() {convergent} {{")), reaches, "{name}: {text}");
        }
    }

    #[test]
    fn a_kernel_can_call_a_kernel() {
        let text = hardened(
            "define spir_kernel void @k(ptr addrspace(1) noalias %p) {\n ret void\n}
             define spir_kernel void @l(ptr addrspace(1) %p) {\n call spir_func void @k(ptr addrspace(1) %p)\n ret void\n}
             define spir_func void @helper() noinline readnone {\n ret void\n}",
            MathOptions::NONE,
        );
        assert!(!text.contains("spir_") && !text.contains("noalias"), "{text}");
        assert!(
            text.contains("define void @spirula.kernel.k(") && text.contains("call void @spirula.kernel.k(")
        );
        assert!(text.contains("define internal void @helper()"));
    }

    #[test]
    fn structures_by_value_are_copied() {
        let text = hardened(
            "%S = type { i32, double }\ndefine spir_kernel void @k(ptr byval(%S) align 8 %s) {
             store i32 1, ptr %s\n ret void\n}",
            MathOptions::NONE,
        );
        assert!(
            text.contains("(ptr noalias readonly align 8 dereferenceable(16) %s)")
                && text.contains("alloca %S, align 8"),
            "{text}"
        );
        assert!(text.contains("llvm.memcpy.p0.p0.i64(ptr align 8 %1, ptr align 8 %s, i64 16"), "{text}");
        assert!(text.contains("store i32 1, ptr %1"), "{text}");
    }

    #[test]
    fn scopes_of_restrict_are_dropped() {
        let text = body(
            "store i32 1, ptr %p, !noalias !0, !alias.scope !0\nret void\n}\n!0 = !{!1}\n!1 = distinct !{!1, !2}
             !2 = distinct !{!2}\ndefine void @g() {",
        );
        assert!(text.contains("store i32 1, ptr %p, align 4\n"), "{text}");
    }

    #[test]
    fn options_permit_fast_math() {
        let text = "define spir_func float @f(float %x) {\n %y = fadd float %x, %x\n ret float %y\n}";
        assert!(hardened(text, MathOptions::FAST_RELAXED_MATH).contains("fadd fast float"));
        assert!(hardened(text, MathOptions::NO_SIGNED_ZEROS).contains("fadd nsz float"));
        assert!(hardened(text, MathOptions::MAD_ENABLE).contains("fadd contract float"));
        assert!(hardened(text, MathOptions::FINITE_MATH_ONLY).contains("fadd nnan ninf float"));
        let exact = hardened(text, MathOptions::UNSAFE_MATH | MathOptions::CORRECTLY_ROUNDED);
        assert!(exact.contains("fadd reassoc nsz contract float"), "{exact}");
        assert!(hardened(text, MathOptions::DENORMS_ARE_ZERO).contains("fadd float"));
    }

    #[test]
    fn the_machine_lays_types_out_as_spir_does() {
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let session = Session::new();
        let mut module = testing::module(
            &session,
            "%S = type { i8, i64, <3 x float>, [3 x i16], ptr addrspace(1), half, <16 x double>, double }\n@s = addrspace(1) global %S zeroinitializer",
        );
        let facts = |module: &Module| {
            let (layout, ty) = (module.view().layout(), module.view().globals()[0].value_type());
            let offsets: Vec<Option<u64>> = (0..8).map(|i| layout.member_offset(ty, i)).collect();
            (offsets, layout.size(ty), layout.alignment(ty))
        };
        let spir = facts(&module);
        llvm::set_target(&mut module, &machine, Default::default());
        assert_eq!(facts(&module), spir);
    }
}
