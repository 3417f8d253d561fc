//! The builtin table against a list that others wrote: the declarations that clang comes with. A program
//! that calls every overload of every function is compiled, and each symbol that it needs must be provided.

use super::mangle::{mangle, parse};
use super::tests::llvm;
use super::*;

const CLANG: [&str; 5] = ["-cc1", "-w", "-triple=spir64-unknown-unknown", "-finclude-default-header", "-xcl"];

/// OpenCL C 1.2 with what the device offers beyond the core.
const CL12: [&str; 2] = [
    "-cl-std=CL1.2",
    "-cl-ext=-all,+cl_khr_fp16,+cl_khr_fp64,+cl_khr_int64_base_atomics,+cl_khr_int64_extended_atomics,+cl_khr_3d_image_writes,\
     +cl_khr_depth_images",
];

/// The same of 3.0.
const CL30: [&str; 2] = [
    "-cl-std=CL3.0",
    "-cl-ext=-all,+cl_khr_fp16,+cl_khr_fp64,+__opencl_c_fp64,+cl_khr_int64_base_atomics,+cl_khr_int64_extended_atomics,\
     +cl_khr_3d_image_writes,+cl_khr_depth_images,+__opencl_c_3d_image_writes,\
     +__opencl_c_read_write_images,+__opencl_c_images,+__opencl_c_int64,\
     +__opencl_c_atomic_order_acq_rel,+__opencl_c_atomic_order_seq_cst,+__opencl_c_atomic_scope_device,\
     +__opencl_c_atomic_scope_all_devices,+__opencl_c_work_group_collective_functions,\
     +__opencl_c_generic_address_space,+__opencl_c_subgroups,\
     +cl_intel_subgroups,+cl_intel_subgroups_char,+cl_intel_subgroups_short,+cl_intel_subgroups_long,\
     +cl_intel_subgroup_local_block_io,\
     +cl_khr_subgroup_ballot,+cl_khr_subgroup_clustered_reduce,+cl_khr_subgroup_extended_types,\
     +cl_khr_subgroup_non_uniform_arithmetic,+cl_khr_subgroup_non_uniform_vote,+cl_khr_subgroup_rotate,\
     +cl_khr_subgroup_shuffle,+cl_khr_subgroup_shuffle_relative,+cl_khr_extended_bit_ops,\
     +__opencl_c_integer_dot_product_input_4x8bit,+__opencl_c_integer_dot_product_input_4x8bit_packed,+cl_ext_float_atomics,\
     +__opencl_c_ext_fp32_global_atomic_add,+__opencl_c_ext_fp32_local_atomic_add,\
     +__opencl_c_ext_fp32_global_atomic_min_max,+__opencl_c_ext_fp32_local_atomic_min_max,\
     +__opencl_c_ext_fp64_global_atomic_add,+__opencl_c_ext_fp64_local_atomic_add,\
     +__opencl_c_ext_fp64_global_atomic_min_max,+__opencl_c_ext_fp64_local_atomic_min_max",
];

fn clang(version: [&str; 2], mode: &[&str], input: &str) -> String {
    let arguments: Vec<&str> =
        CLANG.iter().chain(&version).chain(mode).chain(&["-o", "-", "-"]).copied().collect();
    String::from_utf8(llvm("clang", &arguments, input)).expect("UTF-8")
}

/// `__attribute__((...))` taken out of a prototype.
fn without_attributes(prototype: &str) -> String {
    let mut pieces = prototype.split("__attribute__((");
    let first = pieces.next().unwrap_or_default().to_string();
    pieces.fold(first, |text, piece| text + piece.split_once("))").map_or("", |(_, rest)| rest))
}

/// A function that calls the one of this prototype, such as `char abs(char x)`.
fn caller(number: usize, prototype: &str) -> Option<String> {
    let (head, parameters) = prototype.trim_end().strip_suffix(");")?.split_once('(')?;
    let name = head.split_whitespace().last()?;
    let types: Vec<&str> =
        parameters.split(',').map(str::trim).filter(|ty| !matches!(*ty, "" | "void")).collect();
    let declared: Vec<String> =
        types.iter().enumerate().map(|(i, ty)| format!("{} a{i}", unnamed(ty))).collect();
    let passed: Vec<String> = (0..types.len()).map(|i| format!("a{i}")).collect();
    Some(format!("void t{number}({}) {{ {name}({}); }}\n", declared.join(", "), passed.join(", ")))
}

/// A parameter without its name.
fn unnamed(parameter: &str) -> &str {
    const PREFIXES: [&str; 5] = ["const", "read_only", "write_only", "read_write", "unsigned"];
    // `void *p`, of which the name alone goes.
    if let Some(star) = parameter.rfind('*').filter(|star| !parameter[star + 1..].contains(' ')) {
        return &parameter[..=star];
    }
    let Some((front, last)) = parameter.rsplit_once(' ') else { return parameter };
    let is_name = last.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let before = front.split_whitespace().last().unwrap_or_default();
    if is_name && !PREFIXES.contains(&before) && !before.starts_with("__") { front } else { parameter }
}

/// `<4 x float>` of `<4 x float> noundef`; opaque types as SPIR 1.2 passes them.
fn ir_type(text: &str) -> String {
    match text {
        _ if text.contains("spirv.Image") => "ptr addrspace(1)".to_string(),
        _ if text.contains("spirv.Sampler") => "i32".to_string(),
        _ if text.contains("spirv.Event") => "ptr".to_string(),
        _ => {
            let words =
                text.split(' ').filter(|w| !matches!(*w, "noundef" | "signext" | "zeroext" | "spir_func"));
            words.collect::<Vec<_>>().join(" ")
        }
    }
}

/// The symbol and the signature of `declare spir_func RET @NAME(TYPES) #2`.
fn declared(line: &str) -> Option<(String, Signature)> {
    let (head, rest) = line.strip_prefix("declare ")?.split_once('@')?;
    let (symbol, rest) = rest.split_once('(')?;
    // A target type has parentheses and commas of its own.
    let (mut params, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ',' | ')' if depth == 0 => {
                params.push(rest[start..at].trim());
                start = at + 1;
                if c == ')' {
                    break;
                }
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    let params = params.into_iter().filter(|ty| !ty.is_empty()).map(ir_type).collect();
    Some((symbol.to_string(), Signature { ret: ir_type(head.trim()), params }))
}

#[test]
fn every_overload_that_clang_declares_is_provided() {
    is_provided(CL12, 11_300);
}

#[test]
fn every_overload_of_opencl_c_3_is_provided() {
    is_provided(CL30, 12_500);
}

fn is_provided(version: [&str; 2], least: usize) {
    let header = clang(version, &["-E"], "");
    // A prototype may take several lines.
    let statement = |text: &str| {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
        lines.join(" ").trim().to_owned() + ";"
    };
    let prototypes = header.split(';').map(statement).filter(|text| text.contains("overloadable"));
    let prototypes = prototypes.map(|text| without_attributes(&text));
    let callers = prototypes
        .enumerate()
        .map(|(number, line)| caller(number, &line).unwrap_or_else(|| panic!("not understood: {line}")));
    let program =
        callers.fold("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n".to_owned(), |text, f| text + &f);
    let text = clang(version, &["-emit-llvm", "-O0", "-disable-llvm-passes"], &program);
    let functions: Vec<(String, Signature)> = text.lines().filter_map(declared).collect();
    assert!(functions.len() > least, "only {} functions", functions.len());
    let mut missing = Vec::new();
    for (symbol, signature) in &functions {
        let parsed = parse(symbol).unwrap_or_else(|| panic!("{symbol} is not read"));
        assert_eq!(mangle(&parsed, Spelling::Clang), *symbol);
        for spelling in [symbol.clone(), mangle(&parsed, Spelling::Spir)] {
            match resolve(&spelling, signature, MathOptions::NONE, Default::default()) {
                Resolution::Definition(_) => {}
                other => missing.push(format!("{spelling}: {signature:?}: {other:?}")),
            }
        }
    }
    assert!(missing.is_empty(), "{} are missing:\n{}", missing.len(), missing.join("\n"));
}
