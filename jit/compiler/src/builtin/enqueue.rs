//! Builtins: device-side enqueue (OpenCL C 2.0, 6.13.17). The library does the work with the address of the launch's
//! [`spirula_interface::enqueue::Parent`], which a primitive yields. What takes a block is written twice: first with a function in
//! its place (`front/blocks.rs` finds out which), then with the number of that function's kernel.

use super::Definition;
use super::emit::{Emitter, Ir, Lane, Value};
use super::named::{INT, LONG, Named, POINTER};
use super::table::nothing;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::enqueue::{code, query};

const BOOL: Ir = Ir::scalar(Lane::Int(1));
const VOID: Ir = Ir::scalar(Lane::Void);
const GLOBAL: Ir = Ir::scalar(Lane::Pointer(1));

/// SPIR 2.0's functions that take a block apart.
pub const INVOKE: &str = "spir_get_block_invoke";
/// See [`INVOKE`].
pub const CONTEXT: &str = "spir_get_block_context";

/// What stands for `enqueue_kernel` while blocks are functions: queue, flags, range, number of waits, waits, event, function,
/// captures, their bytes, number of sizes, sizes.
pub const ENQUEUE: &str = "spirula.block.enqueue";
/// What stands for `get_kernel_*`: what, range, function.
pub const QUERY: &str = "spirula.block.query";
/// Which operand the function is.
pub const KERNEL_OPERAND: [(&str, usize); 2] = [(ENQUEUE, 6), (QUERY, 2)];

const ENQUEUE_TYPES: [Ir; 11] =
    [POINTER, INT, POINTER, INT, POINTER, POINTER, POINTER, POINTER, LONG, INT, POINTER];
const QUERY_TYPES: [Ir; 3] = [INT, POINTER, POINTER];

/// What the program's options say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// `-g`: `enqueue_kernel` says what went wrong, not only that something did.
    pub names_errors: bool,
    /// Bits of its pointers.
    pub addresses: AddressBits,
}

/// What can be asked of a block's kernel: OpenCL C's name, and the number.
const QUERIES: [(&str, u32); 4] = [
    ("get_kernel_work_group_size", query::WORK_GROUP_SIZE),
    ("get_kernel_preferred_work_group_size_multiple", query::PREFERRED_MULTIPLE),
    ("get_kernel_sub_group_count_for_ndrange", query::SUB_GROUP_COUNT),
    ("get_kernel_max_sub_group_size_for_ndrange", query::MAX_SUB_GROUP_SIZE),
];

/// The query of that name, and whether it is clang's, who appends the kernel to its arguments.
fn query_of(name: &str) -> Option<(u32, bool)> {
    let clang = name.strip_prefix("__").and_then(|name| name.strip_suffix("_impl"));
    let (stem, is_clang) = clang.map_or((name, false), |name| (name, true));
    QUERIES.iter().find(|(known, _)| *known == stem).map(|(_, number)| (*number, is_clang))
}

/// SPIR-V's instructions of that kind, as calls: they name the function, and its captures with their size.
const SPIRV_ENQUEUE: &str = "__spirv_EnqueueKernel";
const SPIRV_QUERIES: [(&str, u32); 4] = [
    ("__spirv_GetKernelWorkGroupSize", query::WORK_GROUP_SIZE),
    ("__spirv_GetKernelPreferredWorkGroupSizeMultiple", query::PREFERRED_MULTIPLE),
    ("__spirv_GetKernelNDrangeSubGroupCount", query::SUB_GROUP_COUNT),
    ("__spirv_GetKernelNDrangeMaxSubGroupSize", query::MAX_SUB_GROUP_SIZE),
];

/// Whether a name is that of a function that takes blocks to enqueue or to ask about.
pub fn is_one(name: &str) -> bool {
    name == "enqueue_kernel"
        || name == SPIRV_ENQUEUE
        || SPIRV_QUERIES.iter().any(|row| row.0 == name)
        || name.starts_with("__enqueue_kernel_")
        || query_of(name).is_some()
}

/// Defines `symbol` as a call of the function `name` with these types; None if it doesn't take them.
pub fn define(symbol: &str, name: &str, types: &[String], options: Options) -> Option<Definition> {
    let mut emitter = Emitter::of(options.addresses);
    let e = &mut emitter;
    let mut arguments = Vec::new();
    for (index, ty) in types.iter().enumerate() {
        let value = Value { ir: Ir::parse(ty)?, text: format!("%a{index}") };
        arguments.push(match value.ir.lane {
            Lane::Pointer(0) => value,
            Lane::Pointer(_) => e.value(POINTER, &format!("addrspacecast {value} to ptr")),
            _ => value,
        });
    }
    let spirv = SPIRV_QUERIES.iter().find(|row| row.0 == name);
    let result = match (query_of(name), spirv) {
        (Some((what, is_clang)), _) => ask(e, what, is_clang, &arguments)?,
        (None, Some((_, what))) => ask_spirv(e, *what, &arguments)?,
        (None, None) if name == SPIRV_ENQUEUE => enqueue_spirv(e, &arguments)?,
        (None, None) => enqueue(e, name, &arguments)?,
    };
    let (body, declarations) = emitter.finish();
    let parameters: Vec<String> =
        types.iter().enumerate().map(|(index, ty)| format!("{ty} %a{index}")).collect();
    let ir = format!(
        "define i32 @{symbol}({}) alwaysinline nounwind {{\n{body}  ret {result}\n}}\n",
        parameters.join(", ")
    );
    Some(Definition { ir, declarations })
}

fn are(values: &[Value], types: &[Ir]) -> bool {
    values.iter().map(|value| value.ir).eq(types.iter().copied())
}

fn null() -> Value {
    Value { ir: POINTER, text: "null".to_owned() }
}

/// What is known of a block: its function, its captures' address and their bytes.
fn block(e: &mut Emitter, kernel: Option<&Value>, block: &Value) -> [Value; 3] {
    match kernel {
        // Clang's block begins with the size of it all.
        Some(kernel) => {
            let size = e.load(INT, block, 4);
            [kernel.clone(), block.clone(), e.cast("zext", &size, Lane::Int(64))]
        }
        None => {
            let field = |e: &mut Emitter, offset: i128, ir| {
                let offset = e.int(LONG, offset);
                let place = e.element(block, Lane::Int(8), &offset);
                e.load(ir, &place, 8)
            };
            [field(e, 0, POINTER), field(e, 8, POINTER), field(e, 16, LONG)]
        }
    }
}

fn ask(e: &mut Emitter, what: u32, is_clang: bool, arguments: &[Value]) -> Option<Value> {
    let has_range = what >= query::SUB_GROUP_COUNT;
    let count = 1 + usize::from(is_clang) + usize::from(has_range);
    if !are(arguments, &vec![POINTER; count]) {
        return None;
    }
    let range = if has_range { arguments[0].clone() } else { null() };
    let [function, ..] = block(e, is_clang.then(|| &arguments[count - 2]), arguments.last()?);
    let what = e.int(INT, what.into());
    Some(e.call(QUERY, INT, &[what, range, function], ""))
}

/// An optional range, and the function. What SPIR-V says of its captures besides doesn't matter.
fn ask_spirv(e: &mut Emitter, what: u32, arguments: &[Value]) -> Option<Value> {
    let (range, function) = match arguments {
        [function, ..] if what < query::SUB_GROUP_COUNT => (null(), function),
        [range, function, ..] => (range.clone(), function),
        _ => return None,
    };
    let what = e.int(INT, what.into());
    let all = [what, range, function.clone()];
    are(&all, &QUERY_TYPES).then(|| e.call(QUERY, INT, &all, ""))
}

/// Queue, flags, range, number of waits, waits, event, function, captures, their size and alignment, and sizes of local memory,
/// which translators pass by address.
fn enqueue_spirv(e: &mut Emitter, arguments: &[Value]) -> Option<Value> {
    let (front, sizes) = arguments.split_at_checked(10)?;
    let mut all = front[..9].to_vec();
    let Lane::Int(_) = all[8].ir.lane else { return None };
    all[8] = e.cast("zext", &all[8], Lane::Int(64));
    let mut values = Vec::new();
    for size in sizes {
        let (ir, align) = (e.size(), e.size_bytes());
        values.push(if size.ir == POINTER { e.load(ir, size, align) } else { size.clone() });
    }
    all.extend(spir_sizes(e, &values)?);
    are(&all, &ENQUEUE_TYPES).then(|| e.call(ENQUEUE, INT, &all, ""))
}

fn enqueue(e: &mut Emitter, name: &str, arguments: &[Value]) -> Option<Value> {
    let is_clang = name != "enqueue_kernel";
    let (front, rest) = arguments.split_at_checked(3).filter(|(f, _)| are(f, &[POINTER, INT, POINTER]))?;
    let (waits, rest) = match rest.split_at_checked(3) {
        Some((waits, rest)) if are(waits, &[INT, POINTER, POINTER]) => (waits.to_vec(), rest),
        _ => (vec![e.int(INT, 0), null(), null()], rest),
    };
    let (blocks, rest) = rest.split_at_checked(1 + usize::from(is_clang))?;
    if !blocks.iter().all(|value| value.ir == POINTER) {
        return None;
    }
    let of_block = block(e, is_clang.then(|| &blocks[0]), blocks.last()?);
    let sizes = if is_clang { clang_sizes(e, name, rest)? } else { spir_sizes(e, rest)? };
    let mut all = front.to_vec();
    all.extend(waits);
    all.extend(of_block);
    all.extend(sizes);
    are(&all, &ENQUEUE_TYPES).then(|| e.call(ENQUEUE, INT, &all, ""))
}

/// The number of sizes and where they are, from clang's arguments.
fn clang_sizes(e: &mut Emitter, name: &str, rest: &[Value]) -> Option<[Value; 2]> {
    match rest {
        [] if !name.ends_with("varargs") => Some([e.int(INT, 0), null()]),
        [count, sizes] if name.ends_with("varargs") && are(rest, &[INT, POINTER]) => {
            Some([count.clone(), sizes.clone()])
        }
        _ => None,
    }
}

/// The same from arguments that are the sizes.
fn spir_sizes(e: &mut Emitter, rest: &[Value]) -> Option<[Value; 2]> {
    if rest.is_empty() {
        return Some([e.int(INT, 0), null()]);
    }
    let sizes = array(e, rest)?;
    Some([e.int(INT, rest.len() as i128), sizes])
}

/// Private memory with these integers as `size_t`s.
fn array(e: &mut Emitter, values: &[Value]) -> Option<Value> {
    let size = e.size();
    let memory = e.value(POINTER, &format!("alloca [{} x {size}], align 8", values.len()));
    for (index, value) in values.iter().enumerate() {
        if ![INT, size].contains(&value.ir) {
            return None;
        }
        let index = e.int(LONG, index as i128);
        let (place, value) = (e.element(&memory, size.lane, &index), e.cast("zext", value, size.lane));
        e.store(&value, &place, e.size_bytes());
    }
    Some(memory)
}

/// SPIR 2.0's functions that make a block (called `bound`, with the block's memory in front of its arguments) and take it
/// apart.
pub fn block_functions(bound: &str) -> Vec<(String, Definition)> {
    let field = |offset: u32| format!("getelementptr i8, ptr %block, i64 {offset}");
    let read =
        |offset: u32| format!("%p = {}\n  %f = load ptr, ptr %p, align 8\n  ret ptr %f", field(offset));
    let bodies = [
        (INVOKE, "ptr %block", read(0)),
        (CONTEXT, "ptr %block", read(8)),
        (
            bound,
            "ptr %block, ptr %function, i32 %size, i32 %alignment, ptr %captures",
            format!(
                "store ptr %function, ptr %block, align 8\n  %p = {}\n  store ptr %captures, ptr %p, align 8\n  \
                 %q = {}\n  %s = zext i32 %size to i64\n  store i64 %s, ptr %q, align 8\n  ret ptr %block",
                field(8),
                field(16)
            ),
        ),
    ];
    let define = |(name, parameters, body): (&str, &str, String)| {
        let ir = format!("define ptr @{name}({parameters}) alwaysinline nounwind {{\n  {body}\n}}\n");
        (name.to_owned(), Definition { ir, declarations: Default::default() })
    };
    bodies.map(define).into()
}

/// The name of a placeholder's replacement, which takes a kernel's number for the function.
pub fn numbered_name(placeholder: &str) -> String {
    format!("{placeholder}.numbered")
}

/// The replacements of the placeholders.
pub fn numbered(options: Options) -> Vec<(String, Definition)> {
    let define = |placeholder: &str, types: &[Ir], function: &str| {
        let mut types = types.to_vec();
        let kernel = KERNEL_OPERAND.iter().find(|(name, _)| *name == placeholder).map(|(_, index)| *index);
        kernel.into_iter().for_each(|index| types[index] = INT);
        let mut emitter = Emitter::of(options.addresses);
        let e = &mut emitter;
        let given = types.iter().enumerate();
        let mut arguments: Vec<Value> =
            given.map(|(index, &ir)| Value { ir, text: format!("%a{index}") }).collect();
        let parameters: Vec<String> = arguments.iter().map(Value::to_string).collect();
        arguments.splice(0..0, [parent(e), e.width()]);
        let mut result = e.call(function, INT, &arguments, "nounwind willreturn");
        if placeholder == ENQUEUE {
            result = named_error(e, &result, options);
        }
        let name = numbered_name(placeholder);
        let (body, declarations) = emitter.finish();
        let ir = format!(
            "define i32 @{name}({}) alwaysinline nounwind {{\n{body}  ret {result}\n}}\n",
            parameters.join(", ")
        );
        (name, Definition { ir, declarations })
    };
    vec![
        define(ENQUEUE, &ENQUEUE_TYPES, "spirula_enqueue_kernel"),
        define(QUERY, &QUERY_TYPES, "spirula_kernel_query"),
    ]
}

/// "returns CLK_SUCCESS … otherwise CLK_ENQUEUE_FAILURE. If the -g compile option is specified … the errors may be returned".
fn named_error(e: &mut Emitter, status: &Value, options: Options) -> Value {
    if options.names_errors {
        return status.clone();
    }
    let (success, failure) = (e.int(INT, code::SUCCESS.into()), e.int(INT, code::ENQUEUE_FAILURE.into()));
    let is_success = e.compare("icmp eq", status, &success);
    e.select(&is_success, &success, &failure)
}

/// The address of the launch's parent.
fn parent(e: &mut Emitter) -> Value {
    let parent = e.primitive("enqueue_parent", GLOBAL);
    e.value(POINTER, &format!("addrspacecast {parent} to ptr"))
}

/// The functions that take no block.
pub fn builtins() -> Vec<Named> {
    let mut list = ranges();
    list.push(Named::new("get_default_queue", 'p', "", |e, _| {
        let queue = call(e, "default_queue", LONG, &[]);
        opaque(e, &queue)
    }));
    list.push(Named::new("create_user_event", 'p', "", |e, _| {
        let event = call(e, "create_user_event", LONG, &[]);
        opaque(e, &event)
    }));
    list.push(Named::new("is_valid_event", 'b', "p", |e, arguments| {
        let event = number(e, &arguments[0]);
        let valid = call(e, "is_valid_event", INT, &[event]);
        let valid = e.cast("trunc", &valid, Lane::Int(1));
        debug_assert_eq!(valid.ir, BOOL);
        valid
    }));
    for name in ["retain_event", "release_event"] {
        list.push(Named::new(name, 'v', "p", move |e, arguments| {
            let event = number(e, &arguments[0]);
            call(e, name, VOID, &[event])
        }));
    }
    list.push(Named::new("set_user_event_status", 'v', "pi", |e, arguments| {
        let event = number(e, &arguments[0]);
        call(e, "set_user_event_status", VOID, &[event, arguments[1].clone()])
    }));
    // CLK_PROFILING_COMMAND_EXEC_TIME is all that can be asked for.
    list.push(Named::new("capture_event_profiling_info", 'v', "pip", |e, arguments| {
        let event = number(e, &arguments[0]);
        call(e, "capture_times", VOID, &[event, arguments[2].clone()])
    }));
    list.push(Named::new("enqueue_marker", 'i', "pipp", |e, arguments| {
        // `-g` only tells what went wrong: markers always do.
        let all: Vec<Value> = [e.width()].into_iter().chain(arguments.iter().cloned()).collect();
        call(e, "enqueue_marker", INT, &all)
    }));
    list
}

/// `ndrange_1D` takes sizes, the others arrays of them: global; global and local; offset, global and local.
fn ranges() -> Vec<Named> {
    let forms = [["pz", "pzz", "pzzz"], ["pp", "ppp", "pppp"], ["pp", "ppp", "pppp"]];
    let list = forms.into_iter().zip(1..).flat_map(|(forms, dimensions)| {
        forms.into_iter().map(move |form| {
            Named::new(&format!("ndrange_{dimensions}D"), 'v', form, move |e, arguments| {
                let sizes = &arguments[1..];
                let places: Vec<Value> = match dimensions {
                    1 => sizes.iter().filter_map(|size| array(e, std::slice::from_ref(size))).collect(),
                    _ => sizes.to_vec(),
                };
                let [offset, global, local] = match &places[..] {
                    [global] => [null(), global.clone(), null()],
                    [global, local] => [null(), global.clone(), local.clone()],
                    [offset, global, local, ..] => [offset, global, local].map(Value::clone),
                    [] => [null(), null(), null()],
                };
                let dimensions = e.int(INT, dimensions);
                let all = [arguments[0].clone(), e.width(), dimensions, offset, global, local];
                e.call("spirula_ndrange", VOID, &all, "nounwind willreturn");
                nothing()
            })
        })
    });
    list.chain((1..=3).map(spirv_range)).collect()
}

/// What [`spirv_range_call`] calls, by the number of dimensions.
fn spirv_range_name(dimensions: i128) -> String {
    format!("__spirv_ndrange_{dimensions}D")
}

/// Defines `__spirv_BuildNDRange_1D` and its like: the range's address, global size, local size and offset, which are numbers or
/// arrays.
pub fn spirv_range_call(symbol: &str, dimensions: i128, params: &[String]) -> Option<Definition> {
    let [range, sizes @ ..] = params else { return None };
    let number = if sizes.first()?.contains("i32") { "i32" } else { "i64" };
    let ty = if dimensions == 1 { number.to_string() } else { format!("[{dimensions} x {number}]") };
    if !range.starts_with("ptr") || sizes.len() != 3 || sizes.iter().any(|size| *size != ty) {
        return None;
    }
    let mut body = String::new();
    let mut passed = Vec::new();
    for (name, argument) in [("offset", 3), ("global", 1), ("local", 2)] {
        if dimensions == 1 {
            passed.push(format!("{number} %a{argument}"));
            continue;
        }
        body +=
            &format!("  %{name} = alloca {ty}, align 8\n  store {ty} %a{argument}, ptr %{name}, align 8\n");
        passed.push(format!("ptr %{name}"));
    }
    let (name, passed) = (spirv_range_name(dimensions), passed.join(", "));
    let size = if dimensions == 1 { number } else { "ptr" };
    let declaration = format!("declare void @{name}({range}, {size}, {size}, {size})");
    let ir = format!(
        "define linkonce_odr spir_func void @{symbol}({range} %a0, {ty} %a1, {ty} %a2, {ty} %a3) alwaysinline nounwind {{\n\
         {body}  call void @{name}({range} %a0, {passed})\n  ret void\n}}\n"
    );
    Some(Definition { ir, declarations: [declaration].into() })
}

/// The same of SPIR-V's instruction, in which a local size of zero is none.
fn spirv_range(dimensions: i128) -> Named {
    let form = if dimensions == 1 { "pzzz" } else { "pppp" };
    Named::new(&spirv_range_name(dimensions), 'v', form, move |e, arguments| {
        let place = |e: &mut Emitter, size: &Value| match dimensions {
            1 => array(e, std::slice::from_ref(size)).unwrap_or_else(null),
            _ => size.clone(),
        };
        let [offset, global, local] = [1, 2, 3].map(|index| place(e, &arguments[index]));
        let size = e.size();
        let (first, zero) = (e.load(size, &local, e.size_bytes()), e.int(size, 0));
        let is_none = e.compare("icmp eq", &first, &zero);
        let local = e.select(&is_none, &null(), &local);
        let dimensions = e.int(INT, dimensions);
        let all = [arguments[0].clone(), e.width(), dimensions, offset, global, local];
        e.call("spirula_ndrange", VOID, &all, "nounwind willreturn");
        nothing()
    })
}

/// Calls a function of the library with the launch's parent in front.
fn call(e: &mut Emitter, name: &str, result: Ir, arguments: &[Value]) -> Value {
    let all: Vec<Value> = [parent(e)].into_iter().chain(arguments.iter().cloned()).collect();
    e.call(&format!("spirula_{name}"), result, &all, "nounwind willreturn")
}

fn number(e: &mut Emitter, opaque: &Value) -> Value {
    e.value(LONG, &format!("ptrtoint {opaque} to i64"))
}

fn opaque(e: &mut Emitter, number: &Value) -> Value {
    e.value(POINTER, &format!("inttoptr {number} to ptr"))
}
