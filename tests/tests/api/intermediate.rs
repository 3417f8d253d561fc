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
];

const CL_DEVICE_SPIRV_EXTENDED_INSTRUCTION_SETS: cl_uint = 0x12B9;
const CL_DEVICE_SPIRV_CAPABILITIES: cl_uint = 0x12BB;

/// CL_INVALID_SPEC_ID, which `cl-sys` does not know.
const INVALID_SPEC_ID: &str = "status -71";

/// Opcodes of SPIR-V.
mod op {
    pub const MEMORY_MODEL: u32 = 14;
    pub const ENTRY_POINT: u32 = 15;
    pub const CAPABILITY: u32 = 17;
    pub const TYPE_VOID: u32 = 19;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_VECTOR: u32 = 23;
    pub const TYPE_POINTER: u32 = 32;
    pub const TYPE_FUNCTION: u32 = 33;
    pub const SPEC_CONSTANT: u32 = 50;
    pub const FUNCTION: u32 = 54;
    pub const FUNCTION_PARAMETER: u32 = 55;
    pub const FUNCTION_END: u32 = 56;
    pub const VARIABLE: u32 = 59;
    pub const LOAD: u32 = 61;
    pub const STORE: u32 = 62;
    pub const DECORATE: u32 = 71;
    pub const COMPOSITE_EXTRACT: u32 = 81;
    pub const CONVERT: u32 = 113;
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
        let program = Program::from_il(&setup.context, &il)?;
        program
            .build("")
            .map_err(|error| format!("{error}: {}", program.log(setup.device).unwrap_or_default()))?;
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
