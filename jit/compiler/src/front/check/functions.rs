//! Functions: how they are called, and what is said of them.

use super::findings::Findings;
use super::rules;
use super::symbols::{odd_types, symbol};
use super::types::{described, has_part, is_aggregate, is_foreign, is_odd_integer, is_odd_vector};
use crate::front::intrinsics;
use crate::llvm::attribute::Place;
use crate::llvm::{Function, Type};
use spirula_kir::Intrinsic;

/// LLVM's numbers of `spir_func` and `spir_kernel`.
pub(super) const SPIR_FUNC: u32 = 75;
pub(super) const SPIR_KERNEL: u32 = 76;

/// Tables 17 and 18, in LLVM 22's words: `readnone` and `readonly` of a function are `memory`, `nocapture` is `captures`.
const PARAMETERS: [&str; 6] = ["zeroext", "signext", "byval", "sret", "noalias", "captures"];
const FUNCTIONS: [&str; 7] =
    ["alwaysinline", "cold", "inlinehint", "memory", "noduplicate", "noinline", "nounwind"];

/// A function but for its instructions; not an intrinsic.
pub(super) fn function(function: Function, has_blocks: bool, findings: &mut Findings) {
    let name = function.name();
    symbol(*function, findings);
    if function.has_personality() {
        findings.about(&rules::PERSONALITY, *function, format!("the function `{name}` has a personality"));
    }
    if !has_blocks && super::has_address_taken(function) {
        let text =
            format!("the address of the function `{name}` is taken; OpenCL C has no function pointers");
        findings.about(&rules::FUNCTION_POINTER, *function, text);
    }
    for parameter in function.parameters().into_iter().filter(|parameter| is_foreign(parameter.ty())) {
        let text = format!("the function `{name}` has a parameter of {}", described(parameter.ty()));
        findings.about(&rules::TYPES, *function, text);
    }
    if findings.wants_remarks() {
        signature(function, findings);
        if !function.is_declaration() {
            definition(function, findings);
        }
        attributes(function, findings);
    }
}

/// An intrinsic must be one that is known, by what calls it.
pub(super) fn intrinsic(function: Function, findings: &mut Findings) {
    let name = function.name();
    if !function.is_declaration() {
        let text = format!("the function `{name}` has a name that only LLVM's intrinsics have");
        findings.about(&rules::UNKNOWN_INTRINSIC, *function, text);
        return;
    }
    let meaning = intrinsics::meaning(&name);
    let (rule, which) = match meaning {
        Some(intrinsics::Meaning::Operation(Intrinsic::CopyMemory | Intrinsic::FillMemory)) => return,
        Some(_) => (&rules::INTRINSIC, "is none of SPIR's"),
        None => (&rules::UNKNOWN_INTRINSIC, "SPIR doesn't have"),
    };
    if meaning.is_some() && !findings.wants_remarks() {
        return;
    }
    // A mere declaration does nothing.
    for caller in function.using_functions() {
        let text = format!("the function `{}` calls the intrinsic `{name}`, which {which}", caller.name());
        findings.about(rule, *caller, text);
    }
}

fn signature(function: Function, findings: &mut Findings) {
    let name = function.name();
    let ty = function.value_type();
    let result = ty.return_type().filter(|ty| !ty.is_void());
    let types: Vec<Type> = ty.parameter_types().into_iter().chain(result).collect();
    if types.iter().any(|ty| is_foreign(*ty)) {
        return;
    }
    let any = |kind: &dyn Fn(Type) -> bool| types.iter().any(|ty| has_part(*ty, &kind));
    odd_types(any(&is_odd_integer), any(&is_odd_vector), |rule| {
        findings.about(rule, *function, format!("the function `{name}` takes or returns such a type"));
    });
    if types.iter().any(|ty| is_aggregate(*ty)) {
        let text = format!("the function `{name}` takes or returns a structure or array itself");
        findings.about(&rules::AGGREGATE, *function, text);
    }
    let is_short = |ty: Type| ty.is_integer() && ty.integer_width() < 32;
    let extended = |place: Place| {
        let names = function.attributes_at(place);
        names.iter().any(|name| ["zeroext", "signext"].contains(&name.as_str()))
    };
    let parameters = ty.parameter_types().into_iter().enumerate();
    let is_promoted =
        parameters.filter(|(_, ty)| is_short(*ty)).all(|(index, _)| extended(Place::Parameter(index as u32)));
    if !is_promoted || result.is_some_and(is_short) && !extended(Place::Result) {
        let text = format!("the function `{name}` takes or returns a short integer that is not extended");
        findings.about(&rules::PROMOTION, *function, text);
    }
    if ty.is_variadic() && !name.contains("printf") && !function.is_declaration() {
        findings.about(
            &rules::VARIADIC,
            *function,
            format!("the function `{name}` takes any number of arguments"),
        );
    }
    if ![SPIR_FUNC, SPIR_KERNEL].contains(&function.calling_convention()) {
        let text =
            format!("the function `{name}` has LLVM's calling convention {}", function.calling_convention());
        findings.about(&rules::CALLING_CONVENTION, *function, text);
    }
}

fn definition(function: Function, findings: &mut Findings) {
    let name = function.name();
    if let Some(collector) = function.garbage_collector() {
        let collector: String = collector.chars().take(60).collect();
        let text = format!("the function `{name}` names the garbage collector `{collector}`");
        findings.about(&rules::GARBAGE_COLLECTOR, *function, text);
    }
    if function.has_prefix_data() {
        findings.about(
            &rules::PREFIX_DATA,
            *function,
            format!("the function `{name}` has data before its code"),
        );
    }
    if !function.has_attribute("nounwind") {
        findings.about(&rules::NO_UNWIND, *function, format!("the function `{name}` is not `nounwind`"));
    }
    let is_kernel = function.calling_convention() == SPIR_KERNEL;
    for kind in ["reqd_work_group_size", "work_group_size_hint", "vec_type_hint"] {
        if !is_kernel && function.attachment(kind).is_some() {
            let text = format!("the function `{name}` is no kernel, and has {kind}");
            findings.about(&rules::KERNEL_ATTRIBUTE, *function, text);
        }
    }
}

fn attributes(function: Function, findings: &mut Findings) {
    let name = function.name();
    let unusual = |place: Place, allowed: &[&str]| {
        let mut names = function.attributes_at(place);
        names.retain(|name| !allowed.contains(&name.as_str()));
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let own = unusual(Place::Function, &FUNCTIONS);
    if !own.is_empty() {
        findings.about(&rules::FUNCTION_ATTRIBUTE, *function, format!("the function `{name}` is {own}"));
    }
    let count = function.parameters().len() as u32;
    let places = (0..count).map(|index| (format!("parameter {index}"), Place::Parameter(index)));
    for (what, place) in places.chain([("result".to_string(), Place::Result)]) {
        let found = unusual(place, &PARAMETERS);
        if !found.is_empty() {
            let text = format!("the {what} of the function `{name}` is {found}");
            findings.about(&rules::PARAMETER_ATTRIBUTE, *function, text);
        }
    }
}
