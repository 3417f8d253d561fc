//! Tests: every object's life through the dispatch table, as a loader drives it. (Kernels need a compiler: see `tests/`.)

use crate::dispatch::DISPATCH;
use opencl_sys as cl;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Calls a slot.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let function = DISPATCH.$name.expect(stringify!($name));
        // SAFETY: the tests pass null, live variables and lists as OpenCL asks for them; bad handles are what is tested.
        unsafe { function($($argument),*) }
    }};
}

/// Calls a slot that creates something; the status must be success.
macro_rules! create {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut status = 99;
        let object = call!($name($($argument,)* &mut status));
        assert_eq!((status, object.is_null()), (cl::CL_SUCCESS, false), stringify!($name));
        object
    }};
}

/// Calls a slot that must not create anything; the status.
macro_rules! refuse {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut status = 99;
        let object = call!($name($($argument,)* &mut status));
        assert!(object.is_null(), stringify!($name));
        status
    }};
}

type Object = *mut c_void;
type Count = unsafe extern "C" fn(Object) -> cl::cl_int;
type Info = unsafe extern "C" fn(Object, u32, usize, *mut c_void, *mut usize) -> cl::cl_int;

/// The functions that every type of object has.
struct Kind {
    retain: Option<Count>,
    release: Option<Count>,
    info: Option<Info>,
    reference_count: u32,
    invalid: cl::cl_int,
}

impl Kind {
    fn count(function: Option<Count>, object: Object) -> cl::cl_int {
        // SAFETY: any pointer may be passed for a handle.
        unsafe { function.unwrap()(object) }
    }

    /// The reference count, or the error.
    fn references(&self, object: Object) -> Result<u32, cl::cl_int> {
        let (mut count, mut size) = (99_u32, 0);
        let to = std::ptr::from_mut(&mut count).cast();
        // SAFETY: `count` and `size` are live and as large as said.
        match unsafe { self.info.unwrap()(object, self.reference_count, 4, to, &mut size) } {
            cl::CL_SUCCESS => Ok(count),
            status => Err(status),
        }
    }

    /// Nothing can be done with this handle.
    fn assert_invalid(&self, object: Object) {
        assert_eq!(Self::count(self.retain, object), self.invalid);
        assert_eq!(Self::count(self.release, object), self.invalid);
        assert_eq!(self.references(object), Err(self.invalid));
    }

    /// A new object's life; `stranger` is of another type.
    fn live_and_die(&self, object: Object, stranger: Object) {
        assert_eq!(self.references(object), Ok(1));
        assert_eq!(Self::count(self.retain, object), cl::CL_SUCCESS);
        assert_eq!(self.references(object), Ok(2));
        assert_eq!(Self::count(self.release, object), cl::CL_SUCCESS);
        assert_eq!(Self::count(self.release, object), cl::CL_SUCCESS);
        self.assert_invalid(object);
        self.assert_invalid(null_mut());
        self.assert_invalid(stranger);
        self.assert_invalid(object.wrapping_byte_add(8));
        self.assert_invalid(std::ptr::dangling_mut::<u64>().cast());
    }
}

const CONTEXT: Kind = Kind {
    retain: DISPATCH.clRetainContext,
    release: DISPATCH.clReleaseContext,
    info: DISPATCH.clGetContextInfo,
    reference_count: cl::CL_CONTEXT_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_CONTEXT,
};
const QUEUE: Kind = Kind {
    retain: DISPATCH.clRetainCommandQueue,
    release: DISPATCH.clReleaseCommandQueue,
    info: DISPATCH.clGetCommandQueueInfo,
    reference_count: cl::CL_QUEUE_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_COMMAND_QUEUE,
};
const MEM: Kind = Kind {
    retain: DISPATCH.clRetainMemObject,
    release: DISPATCH.clReleaseMemObject,
    info: DISPATCH.clGetMemObjectInfo,
    reference_count: cl::CL_MEM_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_MEM_OBJECT,
};
const SAMPLER: Kind = Kind {
    retain: DISPATCH.clRetainSampler,
    release: DISPATCH.clReleaseSampler,
    info: DISPATCH.clGetSamplerInfo,
    reference_count: cl::CL_SAMPLER_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_SAMPLER,
};
const PROGRAM: Kind = Kind {
    retain: DISPATCH.clRetainProgram,
    release: DISPATCH.clReleaseProgram,
    info: DISPATCH.clGetProgramInfo,
    reference_count: cl::CL_PROGRAM_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_PROGRAM,
};
const KERNEL: Kind = Kind {
    retain: DISPATCH.clRetainKernel,
    release: DISPATCH.clReleaseKernel,
    info: DISPATCH.clGetKernelInfo,
    reference_count: cl::CL_KERNEL_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_KERNEL,
};
const EVENT: Kind = Kind {
    retain: DISPATCH.clRetainEvent,
    release: DISPATCH.clReleaseEvent,
    info: DISPATCH.clGetEventInfo,
    reference_count: cl::CL_EVENT_REFERENCE_COUNT,
    invalid: cl::CL_INVALID_EVENT,
};

fn device() -> cl::cl_device_id {
    let (mut platform, mut device) = (null_mut(), null_mut());
    assert_eq!(call!(clGetPlatformIDs(1, &mut platform, null_mut())), cl::CL_SUCCESS);
    let all = cl::CL_DEVICE_TYPE_ALL;
    assert_eq!(call!(clGetDeviceIDs(platform, all, 1, &mut device, null_mut())), cl::CL_SUCCESS);
    device
}

fn context() -> cl::cl_context {
    create!(clCreateContext(null(), 1, &device(), None, null_mut()))
}

/// The value of a query for one object.
fn object(get_info: Option<Info>, of: Object, name: u32) -> Object {
    let mut value: Object = null_mut();
    let to = std::ptr::from_mut(&mut value).cast();
    // SAFETY: `value` is live and as large as said.
    assert_eq!(unsafe { get_info.unwrap()(of, name, size_of::<Object>(), to, null_mut()) }, cl::CL_SUCCESS);
    value
}

#[test]
fn platform_and_device_handles_are_checked() {
    let device = device();
    let platform = object(DISPATCH.clGetDeviceInfo, device, cl::CL_DEVICE_PLATFORM);
    let name = cl::CL_PLATFORM_NAME;
    let mut size = 0;
    assert_eq!(call!(clGetPlatformInfo(platform, name, 0, null_mut(), &mut size)), cl::CL_SUCCESS);
    assert_eq!(size, "Spirula".len() + 1);
    assert_eq!(call!(clGetPlatformInfo(device, name, 0, null_mut(), &mut size)), cl::CL_INVALID_PLATFORM);
    for bad in [null_mut(), platform, device.wrapping_byte_add(1)] {
        let status = call!(clGetDeviceInfo(bad, cl::CL_DEVICE_NAME, 0, null_mut(), &mut size));
        assert_eq!(status, cl::CL_INVALID_DEVICE);
        assert_eq!(call!(clRetainDevice(bad)), cl::CL_INVALID_DEVICE);
    }
    // A root device outlives any number of releases.
    for _ in 0..3 {
        assert_eq!(call!(clReleaseDevice(device)), cl::CL_SUCCESS);
    }
    assert_eq!(self::device(), device);
}

#[test]
fn what_is_asked_of_platform_and_devices_must_make_sense() {
    let (mut count, mut entry) = (0, null_mut());
    assert_eq!(call!(clGetPlatformIDs(0, null_mut(), &mut count)), cl::CL_SUCCESS);
    assert_eq!(count, 1);
    assert_eq!(call!(clGetPlatformIDs(0, null_mut(), null_mut())), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clGetPlatformIDs(0, &mut entry, null_mut())), cl::CL_INVALID_VALUE);
    let ask = |kind| call!(clGetDeviceIDs(null_mut(), kind, 0, null_mut(), &mut { 0 }));
    assert_eq!(ask(cl::CL_DEVICE_TYPE_DEFAULT), cl::CL_SUCCESS);
    assert_eq!(ask(cl::CL_DEVICE_TYPE_CPU | cl::CL_DEVICE_TYPE_GPU), cl::CL_SUCCESS);
    assert_eq!(ask(cl::CL_DEVICE_TYPE_GPU), cl::CL_DEVICE_NOT_FOUND);
    assert_eq!(ask(0), cl::CL_INVALID_DEVICE_TYPE);
    assert_eq!(ask(1 << 40), cl::CL_INVALID_DEVICE_TYPE);
}

#[test]
fn contexts() {
    CONTEXT.live_and_die(context(), device());
    let (device, platform) = (device(), object(DISPATCH.clGetDeviceInfo, device(), cl::CL_DEVICE_PLATFORM));
    let with =
        |properties: &[isize]| refuse!(clCreateContext(properties.as_ptr(), 1, &device, None, null_mut()));
    let name = cl::CL_CONTEXT_PLATFORM;
    assert_eq!(with(&[name, 0, 0]), cl::CL_INVALID_PLATFORM);
    assert_eq!(with(&[name, device.addr() as isize, 0]), cl::CL_INVALID_PLATFORM);
    assert_eq!(with(&[1, 1, 0]), cl::CL_INVALID_PROPERTY);
    let pair = platform.expose_provenance() as isize;
    assert_eq!(with(&[name, pair, name, pair, 0]), cl::CL_INVALID_PROPERTY);
    assert_eq!(refuse!(clCreateContext(null(), 0, &device, None, null_mut())), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateContext(null(), 1, null(), None, null_mut())), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateContext(null(), 1, &platform, None, null_mut())), cl::CL_INVALID_DEVICE);
    let properties = [name, pair, 0];
    let context = create!(clCreateContext(properties.as_ptr(), 1, &device, None, null_mut()));
    let (mut answer, mut size) = ([0_isize; 3], 0);
    let to = answer.as_mut_ptr().cast();
    let status = call!(clGetContextInfo(context, cl::CL_CONTEXT_PROPERTIES, 24, to, &mut size));
    assert_eq!((status, answer, size), (cl::CL_SUCCESS, properties, 24));
    assert_eq!(call!(clReleaseContext(context)), cl::CL_SUCCESS);
}

#[test]
fn queues() {
    let context = context();
    QUEUE.live_and_die(create!(clCreateCommandQueue(context, device(), 0)), context);
    assert_eq!(refuse!(clCreateCommandQueue(device(), device(), 0)), cl::CL_INVALID_CONTEXT);
    assert_eq!(refuse!(clCreateCommandQueue(context, context, 0)), cl::CL_INVALID_DEVICE);
    assert_eq!(refuse!(clCreateCommandQueue(context, device(), 1 << 9)), cl::CL_INVALID_VALUE);
    // Whatever a queue needs lives as long as it.
    let queue = create!(clCreateCommandQueue(context, device(), cl::CL_QUEUE_PROFILING_ENABLE));
    assert_eq!(call!(clReleaseContext(context)), cl::CL_SUCCESS);
    assert_eq!(object(DISPATCH.clGetCommandQueueInfo, queue, cl::CL_QUEUE_CONTEXT), context);
    assert_eq!(CONTEXT.references(context), Ok(0));
    assert_eq!(call!(clFinish(queue)), cl::CL_SUCCESS);
    assert_eq!(call!(clReleaseCommandQueue(queue)), cl::CL_SUCCESS);
    CONTEXT.assert_invalid(context);
    assert_eq!(call!(clFinish(queue)), cl::CL_INVALID_COMMAND_QUEUE);
}

#[test]
fn buffers_and_sub_buffers() {
    let context = context();
    MEM.live_and_die(create!(clCreateBuffer(context, 0, 1024, null_mut())), context);
    assert_eq!(refuse!(clCreateBuffer(null_mut(), 0, 1024, null_mut())), cl::CL_INVALID_CONTEXT);
    assert_eq!(refuse!(clCreateBuffer(context, 1 << 40, 1024, null_mut())), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateBuffer(context, 0, 0, null_mut())), cl::CL_INVALID_BUFFER_SIZE);
    let copy = cl::CL_MEM_COPY_HOST_PTR;
    assert_eq!(refuse!(clCreateBuffer(context, copy, 8, null_mut())), cl::CL_INVALID_HOST_PTR);

    let buffer = create!(clCreateBuffer(context, 0, 1024, null_mut()));
    let region = cl::cl_buffer_region { origin: 128, size: 128 };
    let region = std::ptr::from_ref(&region).cast();
    let kind = cl::CL_BUFFER_CREATE_TYPE_REGION;
    let sub_buffer = create!(clCreateSubBuffer(buffer, 0, kind, region));
    assert_eq!(object(DISPATCH.clGetMemObjectInfo, sub_buffer, cl::CL_MEM_ASSOCIATED_MEMOBJECT), buffer);
    assert_eq!(refuse!(clCreateSubBuffer(sub_buffer, 0, kind, region)), cl::CL_INVALID_MEM_OBJECT);
    assert_eq!(refuse!(clCreateSubBuffer(buffer, 0, kind, null())), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateSubBuffer(buffer, 0, 7, region)), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clReleaseMemObject(buffer)), cl::CL_SUCCESS);
    assert_eq!(MEM.references(buffer), Ok(0));
    MEM.live_and_die(sub_buffer, context);
    MEM.assert_invalid(buffer);
}

#[test]
fn destructor_callbacks_run_when_the_object_goes_last_first() {
    unsafe extern "C" fn note(_: cl::cl_mem, data: *mut c_void) {
        // SAFETY: `data` is one of the pairs below.
        let (list, value) = unsafe { *data.cast::<(*mut Vec<u32>, u32)>() };
        // SAFETY: the list outlives the buffer.
        unsafe { (*list).push(value) }
    }
    let mut list: Vec<u32> = Vec::new();
    let list = &raw mut list;
    let mut pairs = [(list, 1_u32), (list, 2)];
    let buffer = create!(clCreateBuffer(context(), 0, 8, null_mut()));
    for pair in &mut pairs {
        let data = std::ptr::from_mut(pair).cast();
        assert_eq!(call!(clSetMemObjectDestructorCallback(buffer, Some(note), data)), cl::CL_SUCCESS);
    }
    assert_eq!(call!(clSetMemObjectDestructorCallback(buffer, None, null_mut())), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clReleaseMemObject(buffer)), cl::CL_SUCCESS);
    // SAFETY: nobody else has it any more.
    assert_eq!(unsafe { &*list }, &[2, 1]);
}

#[test]
fn images_and_samplers() {
    let context = context();
    let format =
        cl::cl_image_format { image_channel_order: cl::CL_RGBA, image_channel_data_type: cl::CL_FLOAT };
    let image = create!(clCreateImage2D(context, 0, &format, 8, 4, 0, null_mut()));
    let mut width = 0_usize;
    let to = std::ptr::from_mut(&mut width).cast();
    assert_eq!(call!(clGetImageInfo(image, cl::CL_IMAGE_WIDTH, 8, to, null_mut())), cl::CL_SUCCESS);
    assert_eq!(width, 8);
    MEM.live_and_die(image, context);
    let buffer = create!(clCreateBuffer(context, 0, 8, null_mut()));
    let status = call!(clGetImageInfo(buffer, cl::CL_IMAGE_WIDTH, 8, to, null_mut()));
    assert_eq!(status, cl::CL_INVALID_MEM_OBJECT);
    assert_eq!(
        refuse!(clCreateImage2D(context, 0, null(), 8, 4, 0, null_mut())),
        cl::CL_INVALID_IMAGE_FORMAT_DESCRIPTOR
    );
    assert_eq!(refuse!(clCreateImage2D(context, 0, &format, 0, 4, 0, null_mut())), cl::CL_INVALID_IMAGE_SIZE);
    assert_eq!(
        refuse!(clCreateImage(context, 0, &format, null(), null_mut())),
        cl::CL_INVALID_IMAGE_DESCRIPTOR
    );

    let (address, filter) = (cl::CL_ADDRESS_CLAMP, cl::CL_FILTER_LINEAR);
    SAMPLER.live_and_die(create!(clCreateSampler(context, cl::CL_FALSE, address, filter)), context);
    assert_eq!(refuse!(clCreateSampler(context, 2, address, filter)), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateSampler(context, 0, 7, filter)), cl::CL_INVALID_VALUE);
}

#[test]
fn programs() {
    let context = context();
    let source = c"kernel void nothing() {} and what lies beyond its length";
    let create = || create!(clCreateProgramWithSource(context, 1, &mut source.as_ptr(), &24));
    PROGRAM.live_and_die(create(), context);
    KERNEL.assert_invalid(create());
    let program = create();
    let (mut text, mut size) = ([9_u8; 64], 0);
    let name = cl::CL_PROGRAM_SOURCE;
    assert_eq!(
        call!(clGetProgramInfo(program, name, 64, text.as_mut_ptr().cast(), &mut size)),
        cl::CL_SUCCESS
    );
    assert_eq!(&text[..size], b"kernel void nothing() {}\0");
    assert_eq!(object(DISPATCH.clGetProgramInfo, program, cl::CL_PROGRAM_CONTEXT), context);
    assert_eq!(refuse!(clCreateKernel(program, c"nothing".as_ptr())), cl::CL_INVALID_PROGRAM_EXECUTABLE);
    assert_eq!(refuse!(clCreateKernel(program, null())), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateKernel(context, c"nothing".as_ptr())), cl::CL_INVALID_PROGRAM);
    assert_eq!(refuse!(clCreateProgramWithSource(context, 0, null_mut(), null())), cl::CL_INVALID_VALUE);
    assert_eq!(refuse!(clCreateProgramWithSource(context, 1, &mut null(), null())), cl::CL_INVALID_VALUE);
    let binary = |length, binary: *const u8| {
        let mut state = 99;
        let status =
            refuse!(clCreateProgramWithBinary(context, 1, &device(), &length, &mut { binary }, &mut state));
        (status, state)
    };
    assert_eq!(binary(0, b"x".as_ptr()), (cl::CL_INVALID_VALUE, cl::CL_INVALID_VALUE));
    assert_eq!(binary(1, null()), (cl::CL_INVALID_VALUE, cl::CL_INVALID_VALUE));
    assert_eq!(binary(7, b"garbage".as_ptr()), (cl::CL_INVALID_BINARY, cl::CL_INVALID_BINARY));
    let link = |inputs: &[Object]| {
        let count = inputs.len() as u32;
        refuse!(clLinkProgram(context, 0, null(), null(), count, inputs.as_ptr(), None, null_mut()))
    };
    assert_eq!(link(&[]), cl::CL_INVALID_VALUE);
    assert_eq!(link(&[context]), cl::CL_INVALID_PROGRAM);
}

#[test]
fn events_and_their_callbacks() {
    unsafe extern "C" fn finished(event: cl::cl_event, status: cl::cl_int, data: *mut c_void) {
        // The event is live during its callback, although the application has released it.
        let references = EVENT.references(event);
        // SAFETY: the test's sender, which is never freed.
        let sender = unsafe { &*data.cast::<std::sync::mpsc::Sender<_>>() };
        sender.send((status, references)).unwrap();
    }
    let context = context();
    let event = create!(clCreateUserEvent(context));
    EVENT.live_and_die(create!(clCreateUserEvent(context)), context);
    assert_eq!(call!(clSetUserEventStatus(event, 1)), cl::CL_INVALID_VALUE);
    assert_eq!(object(DISPATCH.clGetEventInfo, event, cl::CL_EVENT_COMMAND_QUEUE), null_mut());
    let (sender, receiver) = std::sync::mpsc::channel::<(cl::cl_int, Result<u32, cl::cl_int>)>();
    // Leaked: `send` may still be returning when its message has long been read.
    let data = std::ptr::from_mut(Box::leak(Box::new(sender))).cast();
    assert_eq!(call!(clSetEventCallback(event, cl::CL_COMPLETE, None, data)), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clSetEventCallback(event, 7, Some(finished), data)), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clSetEventCallback(event, cl::CL_COMPLETE, Some(finished), data)), cl::CL_SUCCESS);
    assert_eq!(call!(clSetUserEventStatus(event, -5)), cl::CL_SUCCESS);
    assert_eq!(call!(clSetUserEventStatus(event, -5)), cl::CL_INVALID_OPERATION);
    let failed = cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    assert_eq!(call!(clWaitForEvents(1, &event)), failed);
    assert_eq!(call!(clReleaseEvent(event)), cl::CL_SUCCESS);
    let (status, references) = receiver.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    assert_eq!(status, -5);
    assert!(references.is_ok_and(|count| count <= 1), "{references:?}");
    assert_eq!(call!(clWaitForEvents(0, null())), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clWaitForEvents(1, &context)), cl::CL_INVALID_EVENT);
}

#[test]
fn commands_and_their_events() {
    let context = context();
    let queue = create!(clCreateCommandQueue(context, device(), cl::CL_QUEUE_PROFILING_ENABLE));
    let buffer = create!(clCreateBuffer(context, 0, 16, null_mut()));
    let (source, mut target) = ([7_u8; 16], [0_u8; 16]);
    let mut event = null_mut();
    let from = source.as_ptr().cast();
    let none = (0, null());
    assert_eq!(
        call!(clEnqueueWriteBuffer(queue, buffer, 0, 0, 16, from, none.0, none.1, &mut event)),
        cl::CL_SUCCESS
    );
    assert_eq!(object(DISPATCH.clGetEventInfo, event, cl::CL_EVENT_COMMAND_QUEUE), queue);
    assert_eq!(object(DISPATCH.clGetEventInfo, event, cl::CL_EVENT_CONTEXT), context);
    let to = target.as_mut_ptr().cast();
    assert_eq!(
        call!(clEnqueueReadBuffer(queue, buffer, 1, 0, 16, to, 1, &event, null_mut())),
        cl::CL_SUCCESS
    );
    assert_eq!(target, source);
    EVENT.live_and_die(event, queue);
    let bad_list = cl::CL_INVALID_EVENT_WAIT_LIST;
    assert_eq!(call!(clEnqueueReadBuffer(queue, buffer, 1, 0, 16, to, 1, &event, null_mut())), bad_list);
    assert_eq!(call!(clEnqueueReadBuffer(queue, buffer, 1, 0, 16, to, 1, null(), null_mut())), bad_list);
    let null_ptr = call!(clEnqueueReadBuffer(queue, buffer, 1, 0, 16, null_mut(), 0, null(), null_mut()));
    assert_eq!(null_ptr, cl::CL_INVALID_VALUE);
    let too_far = call!(clEnqueueReadBuffer(queue, buffer, 1, 8, 16, to, 0, null(), null_mut()));
    assert_eq!(too_far, cl::CL_INVALID_VALUE);
    assert_eq!(call!(clEnqueueMarker(queue, null_mut())), cl::CL_INVALID_VALUE);
    assert_eq!(call!(clEnqueueBarrier(queue)), cl::CL_SUCCESS);
    for object in [buffer, queue, context] {
        assert_eq!(call!(clFinish(object)) == cl::CL_SUCCESS, object == queue);
    }
}

#[test]
fn native_kernels_get_addresses_for_handles() {
    #[repr(C)]
    struct Arguments {
        buffer: *mut c_void,
        value: u64,
    }
    unsafe extern "C" fn store(arguments: *mut c_void) {
        // SAFETY: a copy of the `Arguments` below with the buffer's address.
        unsafe { *(*arguments.cast::<Arguments>()).buffer.cast() = (*arguments.cast::<Arguments>()).value }
    }
    let context = context();
    let queue = create!(clCreateCommandQueue(context, device(), 0));
    let buffer = create!(clCreateBuffer(context, 0, 8, null_mut()));
    let mut arguments = Arguments { buffer, value: 4711 };
    let mut place: *const c_void = std::ptr::from_ref(&arguments.buffer).cast();
    let args = std::ptr::from_mut(&mut arguments).cast();
    let status = call!(clEnqueueNativeKernel(
        queue,
        Some(store),
        args,
        16,
        1,
        &buffer,
        &mut place,
        0,
        null(),
        null_mut()
    ));
    assert_eq!(status, cl::CL_SUCCESS);
    let mut value = 0_u64;
    let to = std::ptr::from_mut(&mut value).cast();
    assert_eq!(call!(clEnqueueReadBuffer(queue, buffer, 1, 0, 8, to, 0, null(), null_mut())), cl::CL_SUCCESS);
    assert_eq!(value, 4711);
    let mut outside = place.wrapping_byte_add(12);
    let status = call!(clEnqueueNativeKernel(
        queue,
        Some(store),
        args,
        16,
        1,
        &buffer,
        &mut outside,
        0,
        null(),
        null_mut()
    ));
    assert_eq!(status, cl::CL_INVALID_VALUE);
}

#[test]
fn what_is_optional_and_missing_says_so() {
    let context = context();
    let il = refuse!(clCreateProgramWithIL(context, null(), 0));
    let pipe = refuse!(clCreatePipe(context, 0, 4, 4, null()));
    assert_eq!((il, pipe), (cl::CL_INVALID_OPERATION, cl::CL_INVALID_OPERATION));
    let properties = [u64::from(cl::CL_QUEUE_PROPERTIES), cl::CL_QUEUE_PROFILING_ENABLE, 0];
    create!(clCreateCommandQueueWithProperties(context, device(), properties.as_ptr()));
    let properties = [u64::from(cl::CL_QUEUE_SIZE), 1024, 0];
    let status = refuse!(clCreateCommandQueueWithProperties(context, device(), properties.as_ptr()));
    assert_eq!(status, cl::CL_INVALID_QUEUE_PROPERTIES);
    let (mut device_time, mut host_time) = (0, 0);
    assert_eq!(call!(clGetDeviceAndHostTimer(device(), &mut device_time, &mut host_time)), cl::CL_SUCCESS);
    assert!(device_time == host_time && host_time > 0);
}
