//! Tests of kernels with a hand-written work-group function: arguments, their block, local memory, refusals.

#![allow(unsafe_code)]

use super::*;
use crate::command::ndrange::{ndrange, suggest, task};
use crate::context::Context;
use crate::execute::launch::Code;
use crate::memory::raw::tests::HostMemory;
use crate::platform::Platform;
use crate::queue::Queue;
use spirula_interface::program::{
    AddressQualifier, ArgumentInfo, KernelCode, KernelSignature, RawWorkGroupFn, TypeQualifiers,
};

pub(crate) fn context() -> Arc<Context> {
    Context::new(Platform::get().devices().to_vec(), Vec::new(), &Arc::default()).unwrap()
}

/// Arguments of these kinds, 16 bytes apart.
pub(crate) fn info(name: &str, kinds: &[ArgumentKind]) -> KernelInfo {
    let argument = |(index, &kind): (usize, &ArgumentKind)| ArgumentInfo {
        kind,
        offset: 16 * index as u32,
        address_space: AddressQualifier::Private,
        access: AccessQualifier::None,
        type_name: String::new(),
        type_qualifiers: TypeQualifiers::default(),
        name: None,
    };
    let signature = KernelSignature {
        name: name.into(),
        arguments: kinds.iter().enumerate().map(argument).collect(),
        argument_block_size: 16 * kinds.len() as u32,
        ..Default::default()
    };
    let code = KernelCode {
        static_local_size: 100,
        private_size: 8,
        scratch_per_item: 16,
        scratch_fixed: 32,
        ..KernelCode::plain(name)
    };
    KernelInfo { signature, code }
}

/// The same with a change.
pub(crate) fn with(mut info: KernelInfo, change: impl FnOnce(&mut KernelInfo)) -> KernelInfo {
    change(&mut info);
    info
}

pub(crate) fn kernel(context: &Arc<Context>, info: KernelInfo, entry: RawWorkGroupFn) -> Arc<Kernel> {
    let name = info.signature.name.clone();
    let program = Program::of_kernels(context, vec![(info, Code::native(entry))]);
    Kernel::new(&program, &name).unwrap()
}

impl Kernel {
    /// As clSetKernelArg, with what the value says of itself.
    fn set_argument(&self, index: usize, value: ArgumentValue<'_>) -> Result<()> {
        let size = match &value {
            ArgumentValue::Bytes(bytes) => bytes.len(),
            ArgumentValue::Local(size) => *size,
            ArgumentValue::Memory(_) | ArgumentValue::Queue(_) | ArgumentValue::Sampler(_) => {
                size_of::<usize>()
            }
        };
        self.argument(index, size, matches!(value, ArgumentValue::Local(_)))?.set(value)
    }
}

/// Does nothing.
pub(crate) unsafe extern "C" fn empty(
    _: *const u8,
    _: *const Launch,
    _: u64,
    _: u64,
    _: *mut u8,
    _: *mut u8,
) {
}

/// `out[group * items + item] += value`, through `local` memory: arguments are the buffer, an i32, local memory.
unsafe extern "C" fn add(
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    local: *mut u8,
    _: *mut u8,
) {
    // SAFETY: the block is laid out by `info`; the buffer has an i32 per work-item, local memory an i32 per item.
    unsafe {
        let out = *arguments.cast::<*mut i32>();
        let value = *arguments.add(16).cast::<i32>();
        let offset = *arguments.add(32).cast::<u64>();
        assert_eq!(offset, 128, "behind 100 bytes of the kernel's own");
        let shared = local.add(offset as usize).cast::<i32>();
        let items = (*launch).local_size[0];
        for group in first..end {
            for item in 0..items {
                *shared.add(item as usize) = value;
            }
            for item in 0..items {
                *out.add((group * items + item) as usize) += *shared.add(item as usize);
            }
        }
    }
}

const ADD: [ArgumentKind; 3] = [ArgumentKind::Buffer, ArgumentKind::Value { size: 4 }, ArgumentKind::Local];

fn status<T>(result: Result<T>) -> Status {
    result.map(|_| ()).unwrap_err().status
}

#[test]
fn launches_see_the_arguments_of_their_time() {
    let context = context();
    let device = context.device().clone();
    let queue = Queue::new(&context, &device, false, false).unwrap();
    let kernel = kernel(&context, info("add", &ADD), add);
    let result = HostMemory::new(&[0; 4 * 4096]);
    let buffer = Mem::buffer(&context, MemFlags::USE_HOST_PTR, 4 * 4096, Some(result.pointer())).unwrap();
    kernel.set_argument(0, ArgumentValue::Memory(Some(buffer.clone()))).unwrap();
    kernel.set_argument(2, ArgumentValue::Local(4 * 64)).unwrap();
    for value in [1i32, 10, 100] {
        kernel.set_argument(1, ArgumentValue::Bytes(&value.to_ne_bytes())).unwrap();
        queue.submit(ndrange(&kernel, &device, None, &[4096], Some(&[64])).unwrap(), &[], false).unwrap();
    }
    // A clone has the arguments of its time, and its own ones afterwards; a queued launch keeps its buffer.
    let clone = kernel.duplicate();
    clone.set_argument(1, ArgumentValue::Bytes(&1000i32.to_ne_bytes())).unwrap();
    queue.submit(ndrange(&clone, &device, None, &[4096], Some(&[64])).unwrap(), &[], false).unwrap();
    clone.set_argument(0, ArgumentValue::Memory(None)).unwrap();
    kernel.set_argument(0, ArgumentValue::Memory(None)).unwrap();
    drop(buffer);
    queue.finish().unwrap();
    assert!(result.bytes().chunks(4).all(|value| value == 1111i32.to_ne_bytes()));
}

#[test]
fn arguments_are_checked_as_they_are_set() {
    let context = context();
    let sampler = Sampler::new(&context, true, 0x1133, 0x1140).unwrap();
    let kernel = kernel(&context, info("add", &ADD), empty);
    let other = super::tests::context();
    let foreign = Mem::buffer(&other, MemFlags::empty(), 4, None).unwrap();
    assert_eq!(status(kernel.argument(3, 8, false)), Status::InvalidArgIndex);
    assert_eq!(status(kernel.argument(0, 4, false)), Status::InvalidArgSize);
    assert_eq!(status(kernel.argument(1, 8, false)), Status::InvalidArgSize);
    assert_eq!(status(kernel.argument(1, 4, true)), Status::InvalidArgValue);
    assert_eq!(status(kernel.argument(2, 0, true)), Status::InvalidArgSize);
    assert_eq!(status(kernel.argument(2, 16, false)), Status::InvalidArgValue);
    assert_eq!(kernel.argument(0, 8, true).unwrap().kind(), ArgumentKind::Buffer);
    assert_eq!(
        status(kernel.set_argument(0, ArgumentValue::Memory(Some(foreign)))),
        Status::InvalidMemObject
    );
    assert_eq!(status(kernel.set_argument(0, ArgumentValue::Sampler(sampler))), Status::InvalidArgValue);
}

#[test]
fn ranges_are_refused_with_the_specifications_errors() {
    let context = context();
    let device = context.device().clone();
    let kernel = kernel(&context, info("plain", &[]), empty);
    let launch = |offset: Option<&[usize]>, global: &[usize], local: Option<&[usize]>| {
        ndrange(&kernel, &device, offset, global, local).map(|_| ())
    };
    assert!(launch(Some(&[5, 6]), &[32, 8], Some(&[8, 8])).is_ok());
    assert_eq!(status(launch(None, &[], None)), Status::InvalidWorkDimension);
    assert_eq!(status(launch(None, &[1, 1, 1, 1], None)), Status::InvalidWorkDimension);
    assert!(launch(None, &[0], Some(&[4])).is_ok());
    assert_eq!(status(suggest(&kernel, &device, None, &[0])), Status::InvalidGlobalWorkSize);
    assert_eq!(status(launch(None, &[1 << 40, 1 << 40], None)), Status::InvalidGlobalWorkSize);
    assert_eq!(status(launch(Some(&[usize::MAX]), &[2], None)), Status::InvalidGlobalOffset);
    assert_eq!(status(launch(None, &[10], Some(&[4]))), Status::InvalidWorkGroupSize);
    assert_eq!(status(launch(None, &[10], Some(&[0]))), Status::InvalidWorkGroupSize);
    assert_eq!(status(launch(None, &[8192, 1], Some(&[8192, 1]))), Status::InvalidWorkItemSize);
    assert_eq!(status(launch(None, &[128, 128], Some(&[128, 128]))), Status::InvalidWorkGroupSize);
}

#[test]
fn required_sizes_unset_arguments_and_too_much_local_memory_are_refused() {
    let context = context();
    let device = context.device().clone();
    let required =
        with(info("required", &[]), |info| info.signature.required_work_group_size = Some([16, 1, 1]));
    let fixed = kernel(&context, required, empty);
    assert_eq!(fixed.work_group_info().compile_work_group_size, [16, 1, 1]);
    assert_eq!(status(ndrange(&fixed, &device, None, &[64], Some(&[32]))), Status::InvalidWorkGroupSize);
    assert!(ndrange(&fixed, &device, None, &[64], None).is_ok());
    assert!(ndrange(&fixed, &device, None, &[0], None).is_ok());
    let add = kernel(&context, info("add", &ADD), empty);
    assert_eq!(status(task(&add, &device)), Status::InvalidKernelArgs);
    add.set_argument(0, ArgumentValue::Memory(None)).unwrap();
    add.set_argument(1, ArgumentValue::Bytes(&[0; 4])).unwrap();
    add.set_argument(2, ArgumentValue::Local(1000)).unwrap();
    assert_eq!(add.work_group_info().local_mem_size, 1128);
    assert!(task(&add, &device).is_ok());
    add.set_argument(2, ArgumentValue::Local(1 << 30)).unwrap();
    assert_eq!(status(task(&add, &device)), Status::OutOfResources);
}

#[test]
fn scratch_bounds_the_group() {
    let hungry = with(info("hungry", &[]), |info| info.code.scratch_per_item = 1 << 20);
    let context = context();
    let kernel = kernel(&context, hungry, empty);
    // Scratch comes for 128 work-items at least.
    assert_eq!(kernel.work_group_info().work_group_size, 1);
}

#[test]
fn numbers_that_do_not_fit_are_the_largest() {
    let greedy = with(info("greedy", &[]), |info| info.code.scratch_per_item = 1 << 57);
    assert_eq!(
        (greedy.code.scratch_size(1), info("", &[]).code.scratch_size(u64::MAX)),
        (u64::MAX, u64::MAX)
    );
    let huge = with(info("huge", &[]), |info| info.signature.required_work_group_size = Some([1 << 16; 3]));
    let kernel = kernel(&context(), huge, empty);
    assert_eq!(kernel.work_group_info().work_group_size, MAX_WORK_GROUP_SIZE);
}

#[test]
fn programs_with_kernels_are_not_rebuilt() {
    let context = context();
    let program = Program::of_kernels(&context, vec![(info("a", &[]), Code::native(empty))]);
    assert_eq!(program.kernel_names().unwrap(), ["a"]);
    assert_eq!(status(Kernel::new(&program, "b")), Status::InvalidKernelName);
    let kernels = [Kernel::new(&program, "a").unwrap()];
    assert_eq!(program.build("").unwrap_err().status, Status::InvalidOperation);
    let clone = kernels[0].duplicate();
    drop(kernels);
    assert_eq!(program.build("").unwrap_err().status, Status::InvalidOperation);
    drop(clone);
    // Now it is only the empty module that is wrong.
    let status = program.build("-spir-std=7").unwrap_err().status;
    assert_eq!(status, Status::BuildProgramFailure);
    assert_eq!(super::tests::status(program.kernel_names()), Status::InvalidProgramExecutable);
}

/// 16 bytes of each buffer and work-item count, and no more than the buffer has.
#[test]
fn launches_that_overflow_the_cache_stream() {
    let context = context();
    let buffer = |size| Mem::buffer(&context, MemFlags::empty(), size, None).unwrap();
    let objects = [buffer(1 << 20), buffer(1 << 16)];
    let launch = |items| Launch::whole(1, [0; 3], [items, 1, 1], [1; 3]);
    assert!(!fits_cache(&objects, &launch(1 << 20), (1 << 20) + (1 << 16)));
    assert!(fits_cache(&objects, &launch(1 << 20), (1 << 20) + (1 << 16) + 1));
    assert!(fits_cache(&objects, &launch(1 << 10), (1 << 15) + 1));
    assert!(!fits_cache(&objects, &launch(u64::MAX), 1 << 20));
}
