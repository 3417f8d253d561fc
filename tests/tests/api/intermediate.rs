//! SPIR-V through clCreateProgramWithIL: what is taken and refused, specialization, and linking with what else there is.

use crate::setup::{Setup, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Device, Kernel, NdRange, Object, Program, SPIR12, code_name};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create, fixtures, refused, slot};
use std::ffi::{CStr, c_char};
use std::ptr::null;

tests![
    versions_are_told,
    what_is_no_module_is_refused,
    what_a_module_lacks_is_in_the_log,
    the_module_is_there_as_given,
    specialization_makes_another_program,
    specialization_is_for_modules,
    modules_link_with_binaries,
    arguments_are_described,
    built_in_variables_of_old_translators,
    groups_as_dpcpp_has_them,
];

const CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS: cl_uint = 0x12B9;
const CL_DEVICE_SPIRV_CAPABILITIES: cl_uint = 0x12BB;

/// CL_INVALID_SPEC_ID, which `cl-sys` does not know.
const INVALID_SPEC_ID: &str = "status -71";

/// Opcodes of SPIR-V.
mod op {
    pub const MEMORY_MODEL: u32 = 14;
    pub const ENTRY_POINT: u32 = 15;
    pub const EXECUTION_MODE: u32 = 16;
    pub const CAPABILITY: u32 = 17;
    pub const TYPE_VOID: u32 = 19;
    pub const TYPE_BOOL: u32 = 20;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_VECTOR: u32 = 23;
    pub const TYPE_POINTER: u32 = 32;
    pub const TYPE_FUNCTION: u32 = 33;
    pub const CONSTANT: u32 = 43;
    pub const SPEC_CONSTANT: u32 = 50;
    pub const FUNCTION: u32 = 54;
    pub const FUNCTION_PARAMETER: u32 = 55;
    pub const FUNCTION_END: u32 = 56;
    pub const VARIABLE: u32 = 59;
    pub const LOAD: u32 = 61;
    pub const STORE: u32 = 62;
    pub const PTR_ACCESS_CHAIN: u32 = 67;
    pub const DECORATE: u32 = 71;
    pub const COMPOSITE_EXTRACT: u32 = 81;
    pub const CONVERT: u32 = 113;
    pub const I_ADD: u32 = 128;
    pub const SELECT: u32 = 169;
    pub const I_NOT_EQUAL: u32 = 171;
    pub const BITWISE_AND: u32 = 199;
    pub const LABEL: u32 = 248;
    pub const RETURN: u32 = 253;
}

/// A module of instructions whose first words lack the count.
fn assembled(instructions: &[&[u32]]) -> Vec<u8> {
    let header = [0x0723_0203, 0x0001_0000, 0, 100, 0];
    let counted = instructions.iter().flat_map(|own| {
        let first = (own.len() as u32) << 16 | own[0];
        [first].into_iter().chain(own[1..].iter().copied()).collect::<Vec<_>>()
    });
    header.into_iter().chain(counted).flat_map(u32::to_le_bytes).collect()
}

fn built(setup: &Setup, il: &[u8]) -> Result<Program, Box<dyn std::error::Error>> {
    let program = Program::from_il(&setup.context, il)?;
    program
        .build("")
        .map_err(|error| format!("{error}: {}", program.log(setup.device).unwrap_or_default()))?;
    Ok(program)
}

/// `kernel void k(global uint *p) { *p = C; }`, where C is the specialization constant 5, which is 40 if nobody says otherwise.
fn specializable(capability: u32) -> Vec<u8> {
    assembled(&[
        &[op::CAPABILITY, 6],
        &[op::CAPABILITY, 4],
        &[op::CAPABILITY, capability],
        &[op::MEMORY_MODEL, 2, 2],
        &[op::ENTRY_POINT, 6, 10, u32::from(b'k')],
        &[op::DECORATE, 5, 1, 5],
        &[op::TYPE_VOID, 1],
        &[op::TYPE_INT, 2, 32, 0],
        &[op::TYPE_POINTER, 3, 5, 2],
        &[op::TYPE_FUNCTION, 4, 1, 3],
        &[op::SPEC_CONSTANT, 2, 5, 40],
        &[op::FUNCTION, 1, 10, 0, 4],
        &[op::FUNCTION_PARAMETER, 3, 11],
        &[op::LABEL, 12],
        &[op::STORE, 11, 5],
        &[op::RETURN],
        &[op::FUNCTION_END],
    ])
}

/// The capability Kernel again: one that is there.
const KERNEL: u32 = 6;

/// What `k` of a built program writes.
fn written(setup: &Setup, program: &Program) -> Result<u32, spirula_tests::isolate::Failure> {
    let buffer = Buffer::copy_of(&setup.context, &[0u8; 4])?;
    let kernel = Kernel::new(program, "k")?;
    kernel.set_object(0, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
    let mut bytes = [0; 4];
    setup.queue.read(&buffer, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// What setting a constant says.
fn specialize(program: &Program, id: u32, value: &[u8]) -> String {
    let (raw, place) = (program.raw(), value.as_ptr().cast());
    code_name(slot!(clSetProgramSpecializationConstant(raw, id, value.len(), place)))
}

fn versions_are_told() -> Outcome {
    let device = Device::first();
    let text = device.info_string(CL_DEVICE_IL_VERSION)?;
    assert!(text.split(' ').any(|version| version == "SPIR-V_1.2"), "{text}");
    for name in ["cl_khr_il_program", "cl_khr_spirv_queries"] {
        assert!(device.has_extension(name), "{name}");
    }
    let address: usize = device.info(CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS)?;
    // SAFETY: the query's answer: addresses of strings that live as long as the platform.
    let name = unsafe { CStr::from_ptr(address as *const c_char) };
    assert_eq!(name, c"OpenCL.std");
    let capabilities: Vec<u32> = device.info_list(CL_DEVICE_SPIRV_CAPABILITIES)?;
    assert!(capabilities.contains(&KERNEL) && !capabilities.contains(&1), "{capabilities:?}");
    Ok(())
}

fn what_is_no_module_is_refused() -> Outcome {
    let setup = Setup::new();
    let context = setup.context.raw();
    let whole = specializable(KERNEL);
    assert_eq!(refused!(clCreateProgramWithIL(context, null(), 4)), "CL_INVALID_VALUE");
    for bytes in [&whole[..0], &whole[..3], &whole[..whole.len() - 12], b"not SPIR-V, but rather long"] {
        let made = create!(clCreateProgramWithIL(context, bytes.as_ptr().cast(), bytes.len()));
        assert_eq!(status(made.map(Program::from_raw)), "CL_INVALID_VALUE", "{} bytes", bytes.len());
    }
    Ok(())
}

fn what_a_module_lacks_is_in_the_log() -> Outcome {
    let setup = Setup::new();
    // Shader.
    let program = Program::from_il(&setup.context, &specializable(1))?;
    assert_eq!(status(program.build("")), "CL_INVALID_BINARY");
    let log = program.log(setup.device)?;
    assert!(log.contains("the capability Shader, which isn't supported"), "{log}");
    Ok(())
}

fn the_module_is_there_as_given() -> Outcome {
    let setup = Setup::new();
    let il = |program: &Program| -> Result<Vec<u8>, spirula_tests::cl::Error> {
        let mut size = 0;
        call!(clGetProgramInfo(program.raw(), CL_PROGRAM_IL, 0, std::ptr::null_mut(), &mut size))?;
        let mut bytes = vec![0_u8; size];
        call!(clGetProgramInfo(program.raw(), CL_PROGRAM_IL, size, bytes.as_mut_ptr().cast(), &mut 0))?;
        Ok(bytes)
    };
    let bytes = specializable(KERNEL);
    let program = Program::from_il(&setup.context, &bytes)?;
    assert_eq!(il(&program)?, bytes);
    program.build("")?;
    assert_eq!(il(&program)?, bytes);
    assert_eq!(il(&Program::from_source(&setup.context, "kernel void k() {}")?)?, b"");
    Ok(())
}

fn specialization_makes_another_program() -> Outcome {
    let setup = Setup::new();
    let program = Program::from_il(&setup.context, &specializable(KERNEL))?;
    let set = |id, value: &[u8]| specialize(&program, id, value);
    program.build("")?;
    assert_eq!(written(&setup, &program)?, 40);
    assert_eq!(set(6, &[0; 4]), INVALID_SPEC_ID);
    assert_eq!(set(5, &[0; 8]), "CL_INVALID_VALUE");
    for value in [2_u32, 40, 7] {
        assert_eq!(set(5, &value.to_le_bytes()), "CL_SUCCESS");
        program.build("")?;
        assert_eq!(written(&setup, &program)?, value);
    }
    Ok(())
}

fn specialization_is_for_modules() -> Outcome {
    let setup = Setup::new();
    let program = Program::from_source(&setup.context, "kernel void k() {}")?;
    assert_eq!(specialize(&program, 0, &[0; 4]), "CL_INVALID_PROGRAM");
    Ok(())
}

/// Half a program in SPIR-V, and the other half in SPIR.
fn modules_link_with_binaries() -> Outcome {
    let setup = Setup::new();
    let spirv =
        |name: &str| Program::from_il(&setup.context, &fixtures::load(&format!("spirv/spir12/{name}.spv")));
    let spir = |name: &str| {
        Program::from_binary(&setup.context, setup.device, &fixtures::load(&format!("spir12/{name}.bc64")))
    };
    for parts in [[spirv("link_main")?, spir("link_lib")?], [spir("link_main")?, spirv("link_lib")?]] {
        parts[0].compile("").or_else(|_| parts[0].compile(SPIR12))?;
        parts[1].compile("").or_else(|_| parts[1].compile(SPIR12))?;
        let program = Program::link(&setup.context, "", &[&parts[0], &parts[1]])?;
        assert!(!program.kernels()?.is_empty());
    }
    Ok(())
}

fn arguments_are_described() -> Outcome {
    let setup = Setup::new();
    let program = Program::from_il(&setup.context, &specializable(KERNEL))?;
    program.build("")?;
    let kernel = Kernel::new(&program, "k")?;
    let mut text = [0_u8; 16];
    let mut size = 0;
    let name = CL_KERNEL_ARG_TYPE_NAME;
    call!(clGetKernelArgInfo(kernel.raw(), 0, name, 16, text.as_mut_ptr().cast(), &mut size))?;
    assert_eq!(&text[..size], b"int*\0");
    Ok(())
}

/// Khronos's first translators had them in the storage class UniformConstant (0), later ones in Input (1).
fn built_in_variables_of_old_translators() -> Outcome {
    let setup = Setup::new();
    for class in [0, 1] {
        let il = assembled(&[
            &[op::CAPABILITY, 6],
            &[op::CAPABILITY, 4],
            &[op::CAPABILITY, 11],
            &[op::MEMORY_MODEL, 2, 2],
            &[op::ENTRY_POINT, 6, 10, u32::from(b'k')],
            // GlobalSize.
            &[op::DECORATE, 20, 11, 31],
            &[op::TYPE_VOID, 1],
            &[op::TYPE_INT, 2, 32, 0],
            &[op::TYPE_INT, 6, 64, 0],
            &[op::TYPE_VECTOR, 7, 6, 3],
            &[op::TYPE_POINTER, 3, 5, 2],
            &[op::TYPE_POINTER, 8, class, 7],
            &[op::TYPE_FUNCTION, 4, 1, 3],
            &[op::VARIABLE, 8, 20, class],
            &[op::FUNCTION, 1, 10, 0, 4],
            &[op::FUNCTION_PARAMETER, 3, 11],
            &[op::LABEL, 12],
            &[op::LOAD, 7, 13, 20],
            &[op::COMPOSITE_EXTRACT, 6, 14, 13, 0],
            &[op::CONVERT, 2, 15, 14],
            &[op::STORE, 11, 15],
            &[op::RETURN],
            &[op::FUNCTION_END],
        ]);
        let program = built(&setup, &il)?;
        let buffer = Buffer::copy_of(&setup.context, &[0u32; 1])?;
        let kernel = Kernel::new(&program, "k")?;
        kernel.set_object(0, Some(&buffer))?;
        setup.queue.launch(&kernel, NdRange::new(&[12], &[4]))?;
        let mut found = [0u32];
        setup.queue.read(&buffer, &mut found)?;
        assert_eq!(found, [12], "class {class}");
    }
    Ok(())
}

/// What DPC++'s translator writes besides the core: scopes of aliasing, shuffles of Intel's sub-groups, sub-groups of a size that
/// the kernel asks for, blocks that these read and write, and products of work-groups. 16 work-items read a number each; behind them go
/// the product, the next one's number within the sub-group of 8, whether all numbers but the own are odd, and the first 8 numbers.
fn groups_as_dpcpp_has_them() -> Outcome {
    let setup = Setup::new();
    let text = |op: u32, text: &str| -> Vec<u32> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(bytes.len() / 4 * 4 + 4, 0);
        let (words, _) = bytes.as_chunks::<4>();
        [op].into_iter().chain(words.iter().map(|word| u32::from_le_bytes(*word))).collect()
    };
    const EXTENSION: u32 = 10;
    let [aliasing, groups, sub_groups] =
        ["SPV_INTEL_memory_access_aliasing", "SPV_KHR_uniform_group_instructions", "SPV_INTEL_subgroups"]
            .map(|name| text(EXTENSION, name));
    let il = assembled(&[
        &[op::CAPABILITY, 6],
        &[op::CAPABILITY, 4],
        &[op::CAPABILITY, 11],
        &[op::CAPABILITY, 18],
        &[op::CAPABILITY, 58],
        &[op::CAPABILITY, 5568],
        &[op::CAPABILITY, 5569],
        &[op::CAPABILITY, 5910],
        &[op::CAPABILITY, 6400],
        &aliasing,
        &groups,
        &sub_groups,
        &[op::MEMORY_MODEL, 2, 2],
        &[op::ENTRY_POINT, 6, 10, u32::from(b'k')],
        // SubgroupSize.
        &[op::EXECUTION_MODE, 10, 35, 8],
        // LocalInvocationId.
        &[op::DECORATE, 20, 11, 27],
        // A domain, a scope of it, and a list of scopes.
        &[5911, 50],
        &[5912, 51, 50],
        &[5913, 52, 51],
        &[op::TYPE_VOID, 1],
        &[op::TYPE_INT, 2, 32, 0],
        &[op::TYPE_INT, 6, 64, 0],
        &[op::TYPE_BOOL, 9],
        &[op::TYPE_VECTOR, 7, 6, 3],
        &[op::TYPE_POINTER, 3, 5, 2],
        &[op::TYPE_POINTER, 8, 1, 7],
        &[op::TYPE_FUNCTION, 4, 1, 3],
        &[op::CONSTANT, 2, 30, 2],
        &[op::CONSTANT, 2, 31, 1],
        &[op::CONSTANT, 2, 32, 0],
        &[op::CONSTANT, 6, 33, 16, 0],
        &[op::CONSTANT, 6, 34, 32, 0],
        &[op::CONSTANT, 6, 35, 48, 0],
        &[op::CONSTANT, 6, 36, 64, 0],
        &[op::VARIABLE, 8, 20, 1],
        &[op::FUNCTION, 1, 10, 0, 4],
        &[op::FUNCTION_PARAMETER, 3, 11],
        &[op::LABEL, 12],
        &[op::LOAD, 7, 13, 20],
        &[op::COMPOSITE_EXTRACT, 6, 14, 13, 0],
        &[op::PTR_ACCESS_CHAIN, 3, 15, 11, 14],
        // Aligned, and of no scope of the list.
        &[op::LOAD, 2, 16, 15, 0x2_0002, 4, 52],
        // GroupIMulKHR of the work-group, SubgroupShuffleDownINTEL.
        &[6401, 2, 17, 30, 0, 16],
        &[5572, 2, 18, 16, 16, 31],
        // GroupLogicalAndKHR of the work-group, by an exclusive scan.
        &[op::BITWISE_AND, 2, 21, 16, 31],
        &[op::I_NOT_EQUAL, 9, 22, 21, 32],
        &[6406, 9, 23, 30, 2, 22],
        &[op::SELECT, 2, 24, 23, 31, 32],
        &[op::I_ADD, 6, 40, 14, 33],
        &[op::PTR_ACCESS_CHAIN, 3, 41, 11, 40],
        &[op::STORE, 41, 17],
        &[op::I_ADD, 6, 42, 14, 34],
        &[op::PTR_ACCESS_CHAIN, 3, 43, 11, 42],
        &[op::STORE, 43, 18],
        &[op::I_ADD, 6, 44, 14, 35],
        &[op::PTR_ACCESS_CHAIN, 3, 45, 11, 44],
        &[op::STORE, 45, 24],
        // SubgroupBlockReadINTEL and SubgroupBlockWriteINTEL.
        &[5575, 2, 46, 11],
        &[op::PTR_ACCESS_CHAIN, 3, 47, 11, 36],
        &[5576, 47, 46],
        &[op::RETURN],
        &[op::FUNCTION_END],
    ]);
    let program = built(&setup, &il)?;
    let kernel = Kernel::new(&program, "k")?;
    let given: [u32; 16] = [3, 5, 7, 9, 11, 2, 1, 1, 1, 1, 1, 1, 1, 13, 1, 1];
    let mut numbers = [given.to_vec(), vec![99; 56]].concat();
    let buffer = Buffer::copy_of(&setup.context, &numbers)?;
    kernel.set_object(0, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[16], &[16]))?;
    setup.queue.read(&buffer, &mut numbers)?;
    let product: u32 = given.iter().product();
    assert_eq!(numbers[16..32], [product; 16]);
    let next: Vec<u32> = (0..16).map(|i| given[i / 8 * 8 + (i % 8 + 1) % 8]).collect();
    assert_eq!(numbers[32..48], next);
    let are_odd: Vec<u32> = (0..16).map(|i| given[..i].iter().all(|n| n % 2 == 1).into()).collect();
    assert_eq!(numbers[48..64], are_odd);
    assert_eq!(numbers[64..], given[..8]);
    Ok(())
}
