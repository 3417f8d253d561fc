//! Pipes (OpenCL 2.0, 5.4 and 6.13.16): objects, arguments, and kernels that run at the same time on both ends.

use crate::setup::{Setup, program_of_2_0, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Object, Queue};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};

tests![limits, objects, no_buffers, arguments, todays_clang, ends_at_the_same_time, captured_by_a_block];

const CL_PIPE_PACKET_SIZE: cl_uint = 0x1120;
const CL_PIPE_MAX_PACKETS: cl_uint = 0x1121;
const CL_MEM_OBJECT_PIPE: cl_uint = 0x10F7;
const CL_DEVICE_PIPE_SUPPORT: cl_uint = 0x1071;

fn pipe(setup: &Setup, flags: cl_mem_flags, packet: u32, packets: u32) -> cl::Result<Buffer> {
    let handle = create!(clCreatePipe(setup.context.raw(), flags, packet, packets, null()))?;
    Ok(Buffer::from_raw(handle))
}

fn info(pipe: &Buffer, name: cl_uint) -> cl::Result<u32> {
    let mut value = 0_u32;
    call!(clGetPipeInfo(pipe.raw(), name, 4, (&raw mut value).cast(), null_mut()))?;
    Ok(value)
}

fn limits() -> Outcome {
    let device = Setup::new().device;
    assert_eq!(device.info::<u32>(CL_DEVICE_PIPE_SUPPORT)?, CL_TRUE);
    assert!(device.info::<u32>(CL_DEVICE_MAX_PIPE_ARGS)? >= 16);
    assert!(device.info::<u32>(CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS)? >= 1);
    assert!(device.info::<u32>(CL_DEVICE_PIPE_MAX_PACKET_SIZE)? >= 1024);
    Ok(())
}

fn objects() -> Outcome {
    let setup = Setup::new();
    let one = pipe(&setup, 0, 12, 100)?;
    assert_eq!((info(&one, CL_PIPE_PACKET_SIZE)?, info(&one, CL_PIPE_MAX_PACKETS)?), (12, 100));
    assert_eq!(one.info::<u32>(CL_MEM_TYPE)?, CL_MEM_OBJECT_PIPE);
    assert_eq!(one.info::<u64>(CL_MEM_FLAGS)?, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
    assert_eq!(one.info::<usize>(CL_MEM_HOST_PTR)?, 0);
    assert_eq!(status(info(&one, 0x1234)), "CL_INVALID_VALUE");
    let buffer = Buffer::new(&setup.context, CL_MEM_READ_WRITE, 64)?;
    assert_eq!(status(info(&buffer, CL_PIPE_PACKET_SIZE)), "CL_INVALID_MEM_OBJECT");
    for (flags, packet, packets, expected) in [
        (CL_MEM_READ_WRITE, 4, 1, "CL_SUCCESS"),
        (CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, 4, 1, "CL_SUCCESS"),
        (CL_MEM_READ_ONLY, 4, 1, "CL_INVALID_VALUE"),
        (CL_MEM_ALLOC_HOST_PTR, 4, 1, "CL_INVALID_VALUE"),
        (1 << 40, 4, 1, "CL_INVALID_VALUE"),
        (0, 0, 1, "CL_INVALID_PIPE_SIZE"),
        (0, 4, 0, "CL_INVALID_PIPE_SIZE"),
        (0, u32::MAX, 1, "CL_INVALID_PIPE_SIZE"),
        (0, 4, u32::MAX, "CL_INVALID_PIPE_SIZE"),
        (0, 60_000, 1 << 30, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
    ] {
        assert_eq!(status(pipe(&setup, flags, packet, packets)), expected, "{flags:#x} {packet} {packets}");
    }
    Ok(())
}

/// No command takes a pipe for a buffer.
fn no_buffers() -> Outcome {
    let setup = Setup::new();
    let (pipe, queue) = (pipe(&setup, 0, 4, 64)?, setup.queue.raw());
    let buffer = Buffer::new(&setup.context, CL_MEM_READ_WRITE, 64)?;
    let mut bytes = [0_u8; 4];
    assert_eq!(status(setup.queue.read(&pipe, &mut bytes)), "CL_INVALID_MEM_OBJECT");
    assert_eq!(status(setup.queue.write(&pipe, &bytes)), "CL_INVALID_MEM_OBJECT");
    let (pipe, buffer) = (pipe.raw(), buffer.raw());
    for (from, to) in [(pipe, buffer), (buffer, pipe)] {
        let copied = call!(clEnqueueCopyBuffer(queue, from, to, 0, 0, 4, 0, null(), null_mut()));
        assert_eq!(status(copied), "CL_INVALID_MEM_OBJECT");
    }
    let mapped = create!(clEnqueueMapBuffer(queue, pipe, CL_TRUE, CL_MAP_READ, 0, 4, 0, null(), null_mut()));
    assert_eq!(status(mapped), "CL_INVALID_MEM_OBJECT");
    Ok(())
}

const ENDS: &str = "
    kernel void put(global const int *from, write_only pipe int p, uint each) {
        for (uint i = 0; i < each; ++i) {
            int value = from[get_global_id(0) * each + i];
            while (write_pipe(p, &value)) {}
        }
    }
    kernel void get(read_only pipe int p, global int *to, uint each) {
        for (uint i = 0; i < each; ++i) {
            int value = -1;
            while (read_pipe(p, &value)) {}
            to[get_global_id(0) * each + i] = value;
        }
    }
    kernel void put_reserved(global const int *from, write_only pipe int p, uint each) {
        for (uint i = 0; i < each; ++i) {
            reserve_id_t id = work_group_reserve_write_pipe(p, get_local_size(0));
            if (!is_valid_reserve_id(id)) { --i; continue; }
            write_pipe(p, id, get_local_id(0), &from[get_global_id(0) * each + i]);
            work_group_commit_write_pipe(p, id);
        }
    }
    kernel void get_reserved(read_only pipe int p, global int *to, uint each) {
        for (uint i = 0; i < each; ) {
            reserve_id_t id = reserve_read_pipe(p, min(2u, each - i));
            if (!is_valid_reserve_id(id)) continue;
            for (uint n = min(2u, each - i), k = 0; k < n; ++k)
                read_pipe(p, id, k, &to[get_global_id(0) * each + i++]);
            commit_read_pipe(p, id);
        }
    }
    kernel void counts(read_only pipe int p, global int *to) {
        to[0] = get_pipe_num_packets(p);
        to[1] = get_pipe_max_packets(p);
        to[2] = is_valid_reserve_id(reserve_read_pipe(p, 1000));
    }";

/// In OpenCL C 3.0, which has sub-groups without an extension.
const SUB_GROUPS: &str = "
    kernel void put_sub(global const int *from, write_only pipe int p, uint each) {
        for (uint i = 0; i < each; ++i) {
            reserve_id_t id = sub_group_reserve_write_pipe(p, get_sub_group_size());
            if (!is_valid_reserve_id(id)) { --i; continue; }
            write_pipe(p, id, get_sub_group_local_id(), &from[get_global_id(0) * each + i]);
            sub_group_commit_write_pipe(p, id);
        }
    }";

fn arguments() -> Outcome {
    let setup = Setup::new();
    let program = program_of_2_0(&setup, ENDS, "")?;
    let kernel = Kernel::new(&program, "get")?;
    let (pipe, buffer) = (pipe(&setup, 0, 4, 4)?, Buffer::new(&setup.context, CL_MEM_READ_WRITE, 64)?);
    assert_eq!(status(kernel.set_object(0, Some(&pipe))), "CL_SUCCESS");
    assert_eq!(status(kernel.set_object(0, Some(&buffer))), "CL_INVALID_MEM_OBJECT");
    assert_eq!(status(kernel.set_object(0, None)), "CL_INVALID_MEM_OBJECT");
    assert_eq!(status(kernel.set_object(1, Some(&pipe))), "CL_INVALID_MEM_OBJECT");
    const CL_KERNEL_ARG_TYPE_PIPE: u64 = 1 << 3;
    assert_eq!(kernel.arg_info::<u64>(0, CL_KERNEL_ARG_TYPE_QUALIFIER)?, CL_KERNEL_ARG_TYPE_PIPE);
    assert_eq!(kernel.arg_info_string(0, CL_KERNEL_ARG_TYPE_NAME)?, "int");
    assert_eq!(kernel.arg_info::<u32>(0, CL_KERNEL_ARG_ACCESS_QUALIFIER)?, CL_KERNEL_ARG_ACCESS_READ_ONLY);
    Ok(())
}

/// The names that clang gives the functions.
fn todays_clang() -> Outcome {
    let setup = Setup::new();
    let program = program_of_2_0(&setup, ENDS, "")?;
    let of_sub_groups = program_of_2_0(&setup, SUB_GROUPS, "-cl-std=CL3.0")?;
    let pipe = pipe(&setup, 0, 4, 96)?;
    let numbers: Vec<i32> = (0..96).map(|n| n * n).collect();
    let from = Buffer::copy_of(&setup.context, &numbers)?;
    for (put, get) in
        [("put", "get"), ("put_reserved", "get"), ("put", "get_reserved"), ("put_sub", "get_reserved")]
    {
        let to = Buffer::copy_of(&setup.context, &[-1; 96])?;
        let kernel = Kernel::new(if put == "put_sub" { &of_sub_groups } else { &program }, put)?;
        kernel.set_object(0, Some(&from))?;
        kernel.set_object(1, Some(&pipe))?;
        kernel.set(2, 3_u32)?;
        setup.queue.launch(&kernel, NdRange::new(&[32], &[8]))?;
        let counts = Kernel::new(&program, "counts")?;
        let counted = Buffer::copy_of(&setup.context, &[-1; 3])?;
        counts.set_object(0, Some(&pipe))?;
        counts.set_object(1, Some(&counted))?;
        setup.queue.launch(&counts, NdRange::new(&[1], &[1]))?;
        let kernel = Kernel::new(&program, get)?;
        kernel.set_object(0, Some(&pipe))?;
        kernel.set_object(1, Some(&to))?;
        kernel.set(2, 3_u32)?;
        setup.queue.launch(&kernel, NdRange::new(&[32], &[8]))?;
        let (mut got, mut count) = (vec![0; 96], [0; 3]);
        setup.queue.read(&to, &mut got)?;
        setup.queue.read(&counted, &mut count)?;
        got.sort_unstable();
        assert_eq!((got, count), (numbers.clone(), [96, 96, 0]), "{put} {get}");
    }
    Ok(())
}

/// A writer and a reader on two queues, through a pipe that is much smaller than what goes through it: either waits for the
/// other.
fn ends_at_the_same_time() -> Outcome {
    let setup = Setup::new();
    let other = Queue::new(&setup.context, setup.device)?;
    let program = program_of_2_0(&setup, ENDS, "")?;
    let numbers: Vec<i32> = (0..4000).collect();
    for (put, get, group) in [("put", "get", 1), ("put_reserved", "get_reserved", 4)] {
        let pipe = pipe(&setup, 0, 4, 8)?;
        let from = Buffer::copy_of(&setup.context, &numbers)?;
        let to = Buffer::copy_of(&setup.context, &vec![-1; numbers.len()])?;
        let (writer, reader) = (Kernel::new(&program, put)?, Kernel::new(&program, get)?);
        writer.set_object(0, Some(&from))?;
        writer.set_object(1, Some(&pipe))?;
        reader.set_object(0, Some(&pipe))?;
        reader.set_object(1, Some(&to))?;
        let each = numbers.len() as u32 / group as u32;
        writer.set(2, each)?;
        reader.set(2, numbers.len() as u32)?;
        setup.queue.launch(&writer, NdRange::new(&[group], &[group]))?;
        other.launch(&reader, NdRange::new(&[1], &[1]))?;
        call!(clFlush(setup.queue.raw()))?;
        call!(clFlush(other.raw()))?;
        other.finish()?;
        setup.queue.finish()?;
        let mut got = vec![0; numbers.len()];
        setup.queue.read(&to, &mut got)?;
        if group == 1 {
            assert_eq!(got, numbers, "one writer's packets come in their order");
        }
        got.sort_unstable();
        assert_eq!(got, numbers, "{put} {get}");
    }
    Ok(())
}

/// A block that writes to a pipe, called and enqueued.
fn captured_by_a_block() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "kernel void k(write_only pipe int p, int n) {
            void (^put)(int) = ^(int value) { write_pipe(p, &value); };
            put(100);
            enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(n),
                           ^{ int value = (int)get_global_id(0); write_pipe(p, &value); });
        }
        kernel void get(read_only pipe int p, global int *to) {
            for (int i = 0, v; read_pipe(p, &v) == 0; ++i) to[i] = v;
        }";
    let program = program_of_2_0(&setup, source, "")?;
    let pipe = pipe(&setup, 0, 4, 64)?;
    let to = Buffer::copy_of(&setup.context, &[-1; 32])?;
    let (put, get) = (Kernel::new(&program, "k")?, Kernel::new(&program, "get")?);
    put.set_object(0, Some(&pipe))?;
    put.set(1, 20)?;
    get.set_object(0, Some(&pipe))?;
    get.set_object(1, Some(&to))?;
    setup.queue.launch(&put, NdRange::new(&[1], &[1]))?;
    setup.queue.launch(&get, NdRange::new(&[1], &[1]))?;
    let mut got = [0; 32];
    setup.queue.read(&to, &mut got)?;
    got[1..21].sort_unstable();
    let expected: Vec<i32> = [100].into_iter().chain(0..20).chain([-1; 11]).collect();
    assert_eq!(got.to_vec(), expected);
    Ok(())
}
