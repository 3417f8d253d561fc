//! The suites whose programs are not run against a reference: what Khronos's own test checks of them. And what those of
//! "printf" must print, reference or not.

use super::argument::Shape;
use super::launch::{self, Outcome};
use crate::suite::Entry;
use crate::worker::{Bench, Form};
use spirula_tests::cl::{
    Buffer, CL_PROGRAM_BINARY_TYPE_INTERMEDIATE, Image, Kernel, NdRange, Object, Program, SPIR12, sys,
};

/// The modules of "compile_and_link" that have a kernel, what each is linked with, and what it must store.
const LINKS: &[(&str, &str, &str, i32)] = &[
    ("private_link", "private", "k", "spir conformance".len() as i32),
    ("internal_linkage", "internal_linkage.mod", "internal_linkage", 1),
    ("external_linkage", "external_linkage.mod", "external_linkage", 42),
    ("available_externally", "global", "k", 42),
];

/// The image kernels of "enum_values".
const SHAPES: &[(&str, Shape, sys::cl_mem_object_type)] = &[
    ("image1d", Shape::D1, sys::CL_MEM_OBJECT_IMAGE1D),
    ("image1d_buffer", Shape::D1Buffer, sys::CL_MEM_OBJECT_IMAGE1D_BUFFER),
    ("image1d_array", Shape::D1Array, sys::CL_MEM_OBJECT_IMAGE1D_ARRAY),
    ("image2d", Shape::D2, sys::CL_MEM_OBJECT_IMAGE2D),
    ("image2d_array", Shape::D2Array, sys::CL_MEM_OBJECT_IMAGE2D_ARRAY),
    ("image3d", Shape::D3, sys::CL_MEM_OBJECT_IMAGE3D),
];

/// What each work-item of the programs of "printf" prints, where it isn't the number that they are given.
const PRINTED: &[(&str, &str)] = &[
    ("test0.testCaseInt", "   10"),
    ("test1.testCaseFloat", "10.345600"),
    ("test5.testCaseChar", "   1"),
    ("test6.testCaseString", " foo"),
    ("test7.testCaseVector_float", "1.00,2.00,3.00,4.00"),
    ("test7.testCaseVector_long", "12345678,98765432"),
    ("test7.testCaseVector_uchar", "0xfa,0xfb"),
    ("test7.testCaseVector_uint", "0x12345678,0x87654321"),
    ("test7.testCaseVector_ushort", "0x1234,0x8765"),
    ("test8.testCaseAddrSpace_local", "+3"),
    ("test8.testCaseAddrSpace_private", "-1"),
];

/// The options that Khronos's test builds and compiles with: it makes arguments of what kernels say about theirs.
const OPTIONS: &str = "-cl-kernel-arg-info";

/// The channel types of 32 bits, as `float`, `int` and `uint` read them.
const WIDE: [sys::cl_channel_type; 3] = [sys::CL_FLOAT, sys::CL_SIGNED_INT32, sys::CL_UNSIGNED_INT32];

/// Whether the program belongs to one of these suites.
pub fn is(entry: &Entry) -> bool {
    ["compile_and_link", "enum_values", "binary_type", "kernel_attributes"].contains(&&*entry.suite)
}

/// What Khronos's test of the program checks.
pub fn check(bench: &mut Bench, entry: &Entry) -> Result<(), String> {
    let program = bench.program(entry, Form::Spir)?;
    match &*entry.suite {
        "compile_and_link" => link(bench, entry, &program),
        "binary_type" => binary_type(bench, &program),
        "kernel_attributes" => attributes(bench, entry, &program),
        _ => enumerations(bench, entry, &program),
    }
}

/// What is wrong with what a program of the suite "printf" printed; None of another suite's. (Khronos's test doesn't look.)
pub fn misprint(entry: &Entry, outcome: &Outcome) -> Option<String> {
    if entry.suite != "printf" {
        return None;
    }
    let given = || {
        let memory = outcome.kernels.first()?.memory.first()?;
        Some(i32::from_le_bytes(*memory.bytes.first_chunk()?).to_string())
    };
    let known = PRINTED.iter().find(|(test, _)| *test == entry.test()).map(|(_, line)| line.to_string());
    let wanted = known.or_else(given)?;
    let wrong = outcome.printed.lines().find(|line| *line != wanted);
    match wrong {
        Some(line) => Some(format!("it printed {line:?} instead of {wanted:?}")),
        None => outcome.printed.is_empty().then(|| format!("it printed nothing instead of {wanted:?}")),
    }
}

/// Links the module with its partner and runs it; a module without one of its own only has to compile.
fn link(bench: &mut Bench, entry: &Entry, program: &Program) -> Result<(), String> {
    let options = format!("{SPIR12} {OPTIONS}");
    program.compile(&options).map_err(|error| bench.explain(program, error))?;
    let Some(&(_, partner, kernel, wanted)) = LINKS.iter().find(|(main, ..)| *main == entry.test()) else {
        return Ok(());
    };
    let partner = bench.program(&entry.sibling(partner), Form::Spir)?;
    partner.compile(&options).map_err(|error| bench.explain(&partner, error))?;
    let linked = Program::link(&bench.context, "", &[program, &partner]).map_err(|e| e.to_string())?;
    let kernel = Kernel::new(&linked, kernel).map_err(|e| e.to_string())?;
    let ty = kernel.arg_info_string(0, sys::CL_KERNEL_ARG_TYPE_NAME).map_err(|e| e.to_string())?;
    if ty != "int*" {
        return Err(format!("the linked kernel says that its argument is of type {ty:?}"));
    }
    let result = run(bench, &kernel, &[], 1)?[0];
    if result == wanted {
        Ok(())
    } else {
        Err(format!("the linked kernel stored {result} instead of {wanted}"))
    }
}

/// A program that was made from SPIR says so before it is built.
fn binary_type(bench: &Bench, program: &Program) -> Result<(), String> {
    let got: u32 =
        program.build_info(bench.device, sys::CL_PROGRAM_BINARY_TYPE).map_err(|e| e.to_string())?;
    let wanted = CL_PROGRAM_BINARY_TYPE_INTERMEDIATE;
    if got == wanted {
        Ok(())
    } else {
        Err(format!("CL_PROGRAM_BINARY_TYPE is {got:#x} instead of {wanted:#x}"))
    }
}

fn build(bench: &Bench, program: &Program) -> Result<(), String> {
    program.build(&format!("{SPIR12} {OPTIONS}")).map_err(|error| bench.explain(program, error))
}

/// What source says of its kernel, CL_KERNEL_ATTRIBUTES repeats; of a binary it says nothing since OpenCL 2.1. Khronos's
/// test wanted both of the binary and is switched off for that (OpenCL-CTS, issue 1284).
fn attributes(bench: &mut Bench, entry: &Entry, program: &Program) -> Result<(), String> {
    const WANTED: [&str; 2] = ["work_group_size_hint(64,1,1)", "vec_type_hint(float4)"];
    let said = |program: &Program| {
        let kernel = Kernel::new(program, "test").map_err(|e| e.to_string())?;
        kernel.info_string(sys::CL_KERNEL_ATTRIBUTES).map_err(|e| e.to_string())
    };
    build(bench, program)?;
    let of_binary = said(program)?;
    let version = bench.device.info_string(sys::CL_DEVICE_VERSION).map_err(|e| e.to_string())?;
    match version.strip_prefix("OpenCL 1.") {
        None if !of_binary.is_empty() => {
            return Err(format!(
                "CL_KERNEL_ATTRIBUTES of a binary's kernel is {of_binary:?} instead of empty"
            ));
        }
        Some(_) => find_words(&of_binary, &WANTED)?,
        None => {}
    }
    if launch::lacking(entry, Form::Source, bench.device).is_some() {
        return Ok(());
    }
    let source = bench.program(entry, Form::Source)?;
    source.build(OPTIONS).map_err(|error| bench.explain(&source, error))?;
    find_words(&said(&source)?, &WANTED)
}

fn find_words(said: &str, wanted: &[&str]) -> Result<(), String> {
    match wanted.iter().find(|attribute| !said.split_whitespace().any(|word| word == **attribute)) {
        Some(missing) => Err(format!("CL_KERNEL_ATTRIBUTES is {said:?}, without {missing}")),
        None => Ok(()),
    }
}

/// Images of every supported format with 32-bit channels: the kernels see order and type as SPIR numbers them, which is
/// as the API does. What Khronos's test does not run, such as the sampler's program, must build.
fn enumerations(bench: &Bench, entry: &Entry, program: &Program) -> Result<(), String> {
    build(bench, program)?;
    for kernel in program.kernels().map_err(|e| e.to_string())? {
        let name = kernel.info_string(sys::CL_KERNEL_FUNCTION_NAME).map_err(|e| e.to_string())?;
        let shape = name.strip_prefix("hostval_image_desc_");
        let Some(&(_, shape, kind)) = SHAPES.iter().find(|(name, ..)| Some(*name) == shape) else { continue };
        let formats = Image::formats(&bench.context, kind).map_err(|e| e.to_string())?;
        for format in formats.into_iter().filter(|(_, channels)| WIDE.contains(channels)) {
            let image = launch::new_image(bench, shape, format).map_err(|e| e.to_string())?;
            let seen = run(bench, &kernel, &[&image], 2)?;
            let wanted = [format.0 as i32, format.1 as i32];
            if seen != wanted {
                let test = entry.test();
                return Err(format!("{test}: {name} sees order and type {seen:#x?} instead of {wanted:#x?}"));
            }
        }
    }
    Ok(())
}

/// Runs the kernel by one work-item: the given objects first, then `int` buffers for the results.
fn run(bench: &Bench, kernel: &Kernel, objects: &[&dyn Object], results: usize) -> Result<Vec<i32>, String> {
    let attempt = || -> spirula_tests::cl::Result<Vec<i32>> {
        let mut index = 0;
        for object in objects {
            kernel.set_object(index, Some(*object))?;
            index += 1;
        }
        let mut buffers = Vec::new();
        for _ in 0..results {
            let buffer = Buffer::copy_of(&bench.context, &[-1i32])?;
            kernel.set_object(index, Some(&buffer))?;
            index += 1;
            buffers.push(buffer);
        }
        bench.queue.launch(kernel, NdRange::new(&[1], &[1]))?.wait()?;
        let mut values = Vec::new();
        for buffer in &buffers {
            let mut value = [0i32];
            bench.queue.read(buffer, &mut value)?;
            values.push(value[0]);
        }
        Ok(values)
    };
    attempt().map_err(|e| e.to_string())
}
