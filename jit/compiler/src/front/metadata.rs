//! Metadata: what the host must know of each kernel, from SPIR's metadata (SPIR 1.2, 2.3) in either form:
//! listed by `opencl.kernels`, or attached to the function as today's clang does. Typed pointers don't survive LLVM's
//! reader, so that argument types come from here.

use super::check::{self, rules};
use crate::llvm::{Function, Layout, Module, Parameter, Type, Value};
use inkwell::llvm_sys::LLVMTypeKind;
use spirula_interface::options::CompileError;
use spirula_interface::program::{
    AccessQualifier, AddressQualifier, ArgumentInfo, ArgumentKind, ImageKind, KernelSignature,
    SUB_GROUP_SIZES, TypeQualifiers,
};
use std::collections::{HashMap, HashSet};

/// LLVM's number of the `spir_kernel` calling convention.
const SPIR_KERNEL: u32 = 76;
/// The largest alignment that OpenCL C has (`long16`, `double16`), and that of the argument block.
const MAX_ALIGNMENT: u64 = 128;

/// The kernels in the order of the metadata. `symbol` and the memory sizes are for later stages to fill in.
pub(crate) fn kernels(module: &Module) -> Result<Vec<KernelSignature>, CompileError> {
    let module = module.view();
    let layout = module.layout();
    let mut seen = HashSet::new();
    let mut list = Vec::new();
    for entry in module.named_metadata(c"opencl.kernels") {
        let operands = entry.operands();
        let function = operands.first().copied().flatten().and_then(Value::as_function);
        let Some(function) = function.filter(|function| !function.is_declaration()) else {
            return Err(CompileError::Failed(format!(
                "error: opencl.kernels has an entry that names no function [{}]\n",
                rules::KERNEL_ENTRY.cited()
            )));
        };
        if seen.insert(function) {
            list.push(kernel(function, &Nodes::listed(&operands[1..]), layout)?);
        }
    }
    let modes: Vec<Vec<Option<Value>>> =
        module.named_metadata(c"spirv.ExecutionMode").into_iter().map(|mode| mode.operands()).collect();
    for function in module.defined_functions() {
        // Of a kernel only clang takes the address, if it calls a block that is enqueued: nobody else can launch it.
        let is_blocks = check::has_address_taken(function);
        if function.calling_convention() == SPIR_KERNEL && !is_blocks && seen.insert(function) {
            let mut nodes = Nodes::attached(function);
            nodes.add_modes(function, &modes);
            list.push(kernel(function, &nodes, layout)?);
        }
    }
    Ok(list)
}

/// A kernel's metadata nodes by their names, without these.
struct Nodes<'m>(HashMap<String, Vec<Option<Value<'m>>>>, Vec<String>);

/// SPIR-V's execution modes, by their numbers, that say what these attributes do.
const MODES: [(u64, &str); 3] =
    [(17, "reqd_work_group_size"), (18, "work_group_size_hint"), (35, SUB_GROUP_SIZE)];

const ATTRIBUTES: [&str; 4] =
    ["reqd_work_group_size", "work_group_size_hint", "vec_type_hint", SUB_GROUP_SIZE];

/// The attribute of cl_intel_required_subgroup_size.
const SUB_GROUP_SIZE: &str = "intel_reqd_sub_group_size";

impl<'m> Nodes<'m> {
    /// From `!{ptr @kernel, !{!"kernel_arg_type", ...}, ...}`.
    fn listed(nodes: &[Option<Value<'m>>]) -> Self {
        let mut map = HashMap::new();
        let mut order = Vec::new();
        for operands in nodes.iter().flatten().filter_map(|node| Some(node.as_node()?.operands())) {
            if let Some((Some(first), rest)) = operands.split_first()
                && let Some(name) = first.metadata_string()
            {
                order.push(name.clone());
                map.insert(name, rest.to_vec());
            }
        }
        Nodes(map, order)
    }

    /// From `define ... !kernel_arg_type !5`.
    fn attached(function: Function<'m>) -> Self {
        let arguments = ["addr_space", "access_qual", "type", "base_type", "type_qual", "name"];
        let names = arguments.iter().map(|name| format!("kernel_arg_{name}"));
        let names: Vec<String> = names.chain(ATTRIBUTES.map(str::to_owned)).collect();
        let node = |name: &String| Some((name.clone(), function.attachment(name)?.operands()));
        Nodes(names.iter().filter_map(node).collect(), names)
    }

    /// Adds what `!spirv.ExecutionMode` says of a function: the function, the mode's number, and its operands.
    fn add_modes(&mut self, function: Function<'m>, modes: &[Vec<Option<Value<'m>>>]) {
        for mode in modes {
            let [Some(subject), Some(number), operands @ ..] = &mode[..] else { continue };
            let number = number.constant_bits();
            let row = MODES.iter().find(|row| Some(row.0) == number);
            if let Some((_, name)) = row.filter(|_| subject.as_function() == Some(function)) {
                self.0.entry((*name).to_string()).or_insert_with(|| operands.to_vec());
            }
        }
    }

    fn get(&self, name: &str) -> Option<&[Option<Value<'m>>]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The string that a list holds for an argument; `None` if there's no such list.
    fn text(&self, name: &str, argument: usize) -> Option<String> {
        (*self.get(name)?.get(argument)?)?.metadata_string()
    }

    fn number(&self, name: &str, argument: usize) -> Option<u64> {
        (*self.get(name)?.get(argument)?)?.constant_bits()
    }

    /// Three sizes.
    fn sub_group_size(&self) -> Result<Option<u32>, String> {
        let Some(operands) = self.get(SUB_GROUP_SIZE) else { return Ok(None) };
        let size = operands.first().copied().flatten().and_then(Value::constant_bits);
        match size.and_then(|size| SUB_GROUP_SIZES.into_iter().find(|&known| u64::from(known) == size)) {
            Some(size) => Ok(Some(size)),
            None => Err(format!(
                "its {SUB_GROUP_SIZE} is {}; sub-groups can be of {SUB_GROUP_SIZES:?} work-items",
                size.map_or("no number".to_string(), |size| size.to_string())
            )),
        }
    }

    fn size3(&self, name: &str) -> Result<Option<[u32; 3]>, String> {
        let Some(operands) = self.get(name) else { return Ok(None) };
        let sizes: Vec<u32> = operands
            .iter()
            .filter_map(|operand| u32::try_from((*operand)?.constant_bits()?).ok().filter(|&size| size > 0))
            .collect();
        match sizes[..] {
            [x, y, z] => Ok(Some([x, y, z])),
            _ => Err(format!("its {name} is not three sizes of at least 1")),
        }
    }
}

fn kernel<'m>(
    function: Function<'m>,
    nodes: &Nodes<'m>,
    layout: Layout<'m>,
) -> Result<KernelSignature, CompileError> {
    let name = function.name();
    read_kernel(function, nodes, layout).map_err(|what| {
        let is_of_sizes = what.contains("work_group_size");
        let rule = if is_of_sizes { &rules::WORK_GROUP_SIZE } else { &rules::KERNEL };
        CompileError::Failed(format!("error: the kernel `{name}` can't be used: {what} [{}]\n", rule.cited()))
    })
}

fn read_kernel<'m>(
    function: Function<'m>,
    nodes: &Nodes<'m>,
    layout: Layout<'m>,
) -> Result<KernelSignature, String> {
    if function.value_type().return_type().is_some_and(|ty| !ty.is_void()) {
        return Err("it returns a value".into());
    }
    let parameters = function.parameters();
    for list in ["addr_space", "access_qual", "type", "type_qual", "base_type", "name"] {
        let list = format!("kernel_arg_{list}");
        if let Some(entries) = nodes.get(&list).map(<[_]>::len)
            && entries != parameters.len()
        {
            return Err(format!("its {list} lists {entries} arguments, but it has {}", parameters.len()));
        }
    }
    let mut arguments = Vec::new();
    let mut end: u64 = 0;
    for (index, parameter) in parameters.into_iter().enumerate() {
        let (mut argument, alignment) = argument(function, parameter, index, nodes, layout)
            .map_err(|what| format!("its argument {index} {what}"))?;
        let offset = end.next_multiple_of(alignment);
        let is_pointer_to_bits = argument.kind == ArgumentKind::Sampler && parameter.ty().is_pointer();
        let size = if is_pointer_to_bits { 8 } else { argument.kind.block_size() };
        end = offset + u64::from(size);
        argument.offset =
            u32::try_from(offset).map_err(|_| "its arguments take more than 4 GB".to_string())?;
        arguments.push(argument);
    }
    Ok(KernelSignature {
        name: function.name(),
        arguments,
        hidden: Vec::new(),
        argument_block_size: u32::try_from(end)
            .map_err(|_| "its arguments take more than 4 GB".to_string())?,
        required_work_group_size: nodes.size3("reqd_work_group_size")?,
        required_sub_group_size: nodes.sub_group_size()?,
        remainder_groups: false,
        work_group_size_hint: nodes.size3("work_group_size_hint")?,
        attributes: attributes(nodes),
        denormals_are_zero: false,
        printf: None,
        block: None,
        sites: Vec::new(),
        places: Vec::new(),
    })
}

/// An argument without its offset, and the alignment of that.
fn argument<'m>(
    function: Function<'m>,
    parameter: Parameter<'m>,
    index: usize,
    nodes: &Nodes<'m>,
    layout: Layout<'m>,
) -> Result<(ArgumentInfo, u64), String> {
    let type_name = nodes.text("kernel_arg_type", index).unwrap_or_default();
    let base_type = nodes.text("kernel_arg_base_type", index).unwrap_or_else(|| type_name.clone());
    let by_value = function.parameter_type_attribute(index as u32, "byval");
    let image = image_kind(&base_type).or_else(|| image_kind(&type_name));
    let is_sampler = base_type == "sampler_t" || type_name == "sampler_t";
    let qualifiers = type_qualifiers(&nodes.text("kernel_arg_type_qual", index).unwrap_or_default());
    let ty = parameter.ty();
    let mut alignment = 8;
    let kind = if let Some(structure) = by_value {
        let natural = u64::from(layout.alignment(structure));
        alignment =
            function.parameter_integer_attribute(index as u32, "align").map_or(natural, |a| a.max(natural));
        ArgumentKind::Value { size: value_size(structure, layout)? }
    } else if let Some(image) = image.filter(|_| ty.is_pointer()) {
        image
    } else if ty.is_pointer() && is_sampler {
        // Clang 3.9 to 16: the bits as a pointer, which is read whole.
        ArgumentKind::Sampler
    } else if ty.is_pointer() && qualifiers.is_pipe {
        ArgumentKind::Pipe
    } else if ty.is_pointer() {
        match ty.address_space() {
            1 | 2 => ArgumentKind::Buffer,
            3 => ArgumentKind::Local,
            0 if is_queue(&base_type) || is_queue(&type_name) => ArgumentKind::Queue,
            0 => return Err("is a private pointer".into()),
            _ => return Err("is a generic pointer".into()),
        }
    } else if ty.integer_width() == 32 && is_sampler {
        alignment = 4;
        ArgumentKind::Sampler
    } else {
        let size = value_size(ty, layout)?;
        alignment = u64::from(layout.alignment(ty));
        ArgumentKind::Value { size }
    };
    let alignment = alignment.clamp(1, MAX_ALIGNMENT);
    let info = ArgumentInfo {
        kind,
        offset: 0,
        address_space: address_qualifier(kind, nodes.number("kernel_arg_addr_space", index), ty),
        access: access_qualifier(&nodes.text("kernel_arg_access_qual", index).unwrap_or_default()),
        type_name,
        type_qualifiers: qualifiers,
        name: nodes.text("kernel_arg_name", index),
    };
    Ok((info, alignment))
}

/// Bytes of a value that is passed in the argument block.
fn value_size<'m>(ty: Type<'m>, layout: Layout<'m>) -> Result<u32, String> {
    if !ty.is_sized() || ty.target_type_name().is_some() {
        return Err(format!("has the type {ty}, which can't be passed"));
    }
    u32::try_from(layout.size(ty)).map_err(|_| format!("has the type {ty}, which is too large"))
}

/// Whether it is the type of a queue, as OpenCL C or as translators call it.
fn is_queue(name: &str) -> bool {
    ["queue_t", "opencl.queue_t", "spirv.Queue"].contains(&name)
}

/// The image that a type of OpenCL C names.
fn image_kind(name: &str) -> Option<ArgumentKind> {
    // Today's clang writes the access qualifier into the type's name.
    let name = name
        .trim_start_matches("__")
        .trim_start_matches("read_only ")
        .trim_start_matches("write_only ")
        .trim_start_matches("read_write ");
    let (kind, is_depth) = match name {
        "image1d_t" => (ImageKind::Image1d, false),
        "image1d_buffer_t" => (ImageKind::Image1dBuffer, false),
        "image1d_array_t" => (ImageKind::Image1dArray, false),
        "image2d_t" => (ImageKind::Image2d, false),
        "image2d_depth_t" => (ImageKind::Image2d, true),
        "image2d_array_t" => (ImageKind::Image2dArray, false),
        "image2d_array_depth_t" => (ImageKind::Image2dArray, true),
        "image3d_t" => (ImageKind::Image3d, false),
        _ => return None,
    };
    Some(ArgumentKind::Image { kind, is_depth })
}

fn address_qualifier(kind: ArgumentKind, listed: Option<u64>, ty: Type) -> AddressQualifier {
    let number = match kind {
        ArgumentKind::Value { .. } | ArgumentKind::Sampler | ArgumentKind::Queue => 0,
        ArgumentKind::Image { .. } | ArgumentKind::Pipe => 1,
        _ => listed.unwrap_or(u64::from(ty.address_space())),
    };
    match number {
        1 => AddressQualifier::Global,
        2 => AddressQualifier::Constant,
        3 => AddressQualifier::Local,
        _ => AddressQualifier::Private,
    }
}

fn access_qualifier(text: &str) -> AccessQualifier {
    match text.trim_start_matches("__") {
        "read_only" => AccessQualifier::ReadOnly,
        "write_only" => AccessQualifier::WriteOnly,
        "read_write" => AccessQualifier::ReadWrite,
        _ => AccessQualifier::None,
    }
}

fn type_qualifiers(text: &str) -> TypeQualifiers {
    let has = |word: &str| text.split_whitespace().any(|w| w == word);
    TypeQualifiers {
        is_const: has("const"),
        is_restrict: has("restrict"),
        is_volatile: has("volatile"),
        is_pipe: has("pipe"),
    }
}

/// CL_KERNEL_ATTRIBUTES: `reqd_work_group_size(16,16,1) vec_type_hint(float4)`.
fn attributes(nodes: &Nodes) -> String {
    let mut list = Vec::new();
    for name in nodes.1.iter().filter(|name| ATTRIBUTES.contains(&name.as_str())) {
        let Some(operands) = nodes.get(name) else { continue };
        if name == "vec_type_hint" {
            let ty = operands.first().copied().flatten().map(Value::ty);
            let signed = operands.get(1).copied().flatten().and_then(Value::constant_bits).unwrap_or(1) != 0;
            list.extend(ty.and_then(|ty| type_text(ty, signed)).map(|text| format!("vec_type_hint({text})")));
        } else if name == SUB_GROUP_SIZE {
            let size = nodes.sub_group_size().ok().flatten();
            list.extend(size.map(|size| format!("{name}({size})")));
        } else if let Ok(Some([x, y, z])) = nodes.size3(name) {
            list.push(format!("{name}({x},{y},{z})"));
        }
    }
    list.join(" ")
}

/// A scalar or vector type in OpenCL C.
fn type_text(ty: Type, signed: bool) -> Option<String> {
    use LLVMTypeKind::*;
    let scalar = ty.scalar();
    let name = match scalar.kind() {
        LLVMHalfTypeKind => "half",
        LLVMFloatTypeKind => "float",
        LLVMDoubleTypeKind => "double",
        LLVMIntegerTypeKind => match scalar.integer_width() {
            8 => "char",
            16 => "short",
            32 => "int",
            64 => "long",
            _ => return None,
        },
        _ => return None,
    };
    let unsigned = if scalar.is_integer() && !signed { "u" } else { "" };
    let lanes = if ty.is_vector() { ty.element_count().to_string() } else { String::new() };
    Some(format!("{unsigned}{name}{lanes}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::Session;

    const SAMPLE: &str = r#"
        %struct.S = type { i32, double, [3 x i8] }
        %opencl.image2d_t = type opaque
        define spir_kernel void @k(ptr addrspace(1) %a, ptr addrspace(3) %l, i8 %c, <3 x float> %v, ptr byval(%struct.S) %s,
            ptr addrspace(1) %image, i32 %sampler, <16 x i64> %big) {
          ret void
        }
        !opencl.kernels = !{!0}
        !0 = !{ptr @k, !1, !2, !3, !4, !5, !6, !7, !8, !9}
        !1 = !{!"kernel_arg_addr_space", i32 1, i32 3, i32 0, i32 0, i32 0, i32 1, i32 0, i32 0}
        !2 = !{!"kernel_arg_access_qual", !"none", !"none", !"none", !"none", !"none", !"write_only", !"none", !"none"}
        !3 = !{!"kernel_arg_type", !"T*", !"float*", !"char", !"float3", !"S", !"picture", !"sampler_t", !"ulong16"}
        !4 = !{!"kernel_arg_type_qual", !"restrict const", !"", !"", !"", !"", !"", !"", !""}
        !5 = !{!"kernel_arg_base_type", !"int*", !"float*", !"char", !"float3", !"S", !"image2d_t", !"sampler_t", !"ulong16"}
        !6 = !{!"kernel_arg_name", !"a", !"l", !"c", !"v", !"s", !"image", !"sampler", !"big"}
        !7 = !{!"reqd_work_group_size", i32 16, i32 4, i32 1}
        !8 = !{!"vec_type_hint", <4 x i32> undef, i32 0}
        !9 = !{!"work_group_size_hint", i32 8, i32 1, i32 1}
    "#;

    fn one(text: &str) -> Result<KernelSignature, String> {
        let session = Session::new();
        let module = testing::module(&session, text);
        kernels(&module).map(|mut list| list.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn execution_modes_are_attributes() {
        let kernel = one("define spir_kernel void @k() {\n ret void\n}
            !spirv.ExecutionMode = !{!0, !1}
            !0 = !{ptr @k, i32 17, i32 8, i32 4, i32 2}\n!1 = !{ptr @k, i32 31}")
        .unwrap();
        assert_eq!(kernel.required_work_group_size, Some([8, 4, 2]));
        assert_eq!(kernel.attributes, "reqd_work_group_size(8,4,2)");
    }

    #[test]
    fn every_kind_of_argument_has_its_place() {
        let info = one(SAMPLE).unwrap();
        let kinds: Vec<_> = info.arguments.iter().map(|a| (a.kind, a.offset)).collect();
        use ArgumentKind::*;
        assert_eq!(
            kinds,
            [
                (Buffer, 0),
                (Local, 8),
                (Value { size: 1 }, 16),
                (Value { size: 16 }, 32),
                (Value { size: 24 }, 48),
                (Image { kind: ImageKind::Image2d, is_depth: false }, 72),
                (Sampler, 80),
                (Value { size: 128 }, 128),
            ]
        );
        assert_eq!(info.argument_block_size, 256);
        assert_eq!(
            info.attributes,
            "reqd_work_group_size(16,4,1) vec_type_hint(uint4) work_group_size_hint(8,1,1)"
        );
        assert_eq!(info.required_work_group_size, Some([16, 4, 1]));
        assert_eq!(info.work_group_size_hint, Some([8, 1, 1]));
        let first = &info.arguments[0];
        assert_eq!((first.type_name.as_str(), first.name.as_deref()), ("T*", Some("a")));
        assert!(first.type_qualifiers.is_const && first.type_qualifiers.is_restrict);
        assert_eq!(info.arguments[5].access, AccessQualifier::WriteOnly);
        let spaces: Vec<_> = info.arguments.iter().map(|a| a.address_space).collect();
        assert_eq!(
            spaces[..3],
            [AddressQualifier::Global, AddressQualifier::Local, AddressQualifier::Private]
        );
    }

    #[test]
    fn attached_metadata_is_read_too() {
        let info = one(
            "define spir_kernel void @k(ptr addrspace(2) %a) !kernel_arg_type !0 !reqd_work_group_size !1 {\n ret void\n}
             !0 = !{!\"int*\"}\n!1 = !{i32 2, i32 2, i32 2}",
        )
        .unwrap();
        assert_eq!(info.arguments[0].type_name, "int*");
        assert_eq!(info.arguments[0].address_space, AddressQualifier::Constant);
        assert_eq!(info.attributes, "reqd_work_group_size(2,2,2)");
    }

    /// SPIR 2.0, 2.4.
    #[test]
    fn optional_qualifiers_promise_nothing_that_is_relied_on() {
        let text =
            "define spir_kernel void @k(ptr addrspace(1) %a, i32 %b) {\n ret void\n}\n!opencl.kernels = !{!0}
            !0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_optional_qual\", !\"nosvm\", !\"none\"}";
        assert!(matches!(one(text).unwrap().arguments[1].kind, ArgumentKind::Value { size: 4 }));
    }

    #[test]
    fn missing_metadata_is_no_error() {
        let info = one("define spir_kernel void @k(i32 %a) {\n ret void\n}").unwrap();
        assert_eq!(info.arguments[0].kind, ArgumentKind::Value { size: 4 });
        assert_eq!(info.arguments[0].name, None);
    }

    #[test]
    fn malformed_metadata_is_an_error_that_names_the_kernel() {
        let kernel = "define spir_kernel void @k(i32 %a) {\n ret void\n}\n!opencl.kernels = !{!0}\n";
        for (rest, expected) in [
            ("!0 = !{!\"k\"}", "names no function"),
            ("!0 = !{ptr null}", "names no function"),
            ("!0 = !{}", "names no function"),
            (
                "!0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_type\"}",
                "`k` can't be used: its kernel_arg_type lists 0",
            ),
            ("!0 = !{ptr @k, !1}\n!1 = !{!\"reqd_work_group_size\", i32 0, i32 1, i32 1}", "three sizes"),
            ("!0 = !{ptr @k, !1}\n!1 = !{!\"reqd_work_group_size\", !\"x\"}", "three sizes"),
        ] {
            let error = one(&format!("{kernel}{rest}")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(one(&format!("{kernel}!0 = !{{ptr @k, !1, i32 7, !\"x\"}}\n!1 = !{{i32 3}}")).is_ok());
        let error =
            one("define spir_func i32 @k() {\n ret i32 0\n}\n!opencl.kernels = !{!0}\n!0 = !{ptr @k}")
                .unwrap_err();
        assert!(error.contains("`k` can't be used: it returns a value"), "{error}");
        let error = one("define spir_kernel void @k(ptr %p) {\n ret void\n}").unwrap_err();
        assert!(error.contains("its argument 0 is a private pointer"), "{error}");
    }

    #[test]
    fn every_fixture_has_kernels_that_can_be_read() {
        for (name, bytes) in testing::fixtures() {
            let session = Session::new();
            let module = crate::front::read::read(&session, &bytes).unwrap();
            let module = crate::front::opaque::replace(&session, module).unwrap();
            let result = kernels(&module);
            assert!(result.is_ok(), "{name}: {result:?}");
        }
    }
}
