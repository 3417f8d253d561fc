//! The library's client: the few objects of OpenCL that this command needs, of the one device.

use crate::Result;
use crate::input::{Input, Kind};
use crate::library::Library;
use opencl_sys::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

/// An error of a function of OpenCL.
#[derive(Debug)]
pub struct ClError {
    function: &'static str,
    status: cl_int,
}

impl std::fmt::Display for ClError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} ends with {}", self.function, self.status)
    }
}

impl std::error::Error for ClError {}

fn checked(function: &'static str, status: cl_int) -> Result<(), ClError> {
    if status == CL_SUCCESS { Ok(()) } else { Err(ClError { function, status }) }
}

/// Calls a function that returns its status.
macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $library.functions().$name {
            // SAFETY: the arguments are as OpenCL says: handles of live objects, and lists and places as long as is said beside them.
            Some(function) => checked(stringify!($name), unsafe { function($($argument),*) }),
            None => checked(stringify!($name), CL_INVALID_OPERATION),
        }
    };
}

/// Calls a function that returns an object, its status through its last parameter.
macro_rules! create {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let mut status = CL_INVALID_OPERATION;
        // SAFETY: as above.
        let object = $library.functions().$name.map(|function| unsafe { function($($argument,)* &mut status) });
        checked(stringify!($name), status).map(|()| object.unwrap_or(null_mut()))
    }};
}

/// An object that is released on drop.
macro_rules! object {
    ($(#[$text:meta])* $name:ident, $handle:ty, $release:ident) => {
        $(#[$text])*
        pub struct $name<'l> {
            library: &'l Library,
            handle: $handle,
        }

        impl Drop for $name<'_> {
            fn drop(&mut self) {
                // What can't be released is released when this process ends.
                let _ = call!(self.library, $release(self.handle));
            }
        }
    };
}

object!(
    /// The device's context.
    Context, cl_context, clReleaseContext
);
object!(
    /// An in-order queue, whose commands are timed.
    Queue, cl_command_queue, clReleaseCommandQueue
);
object!(Program, cl_program, clReleaseProgram);
object!(Kernel, cl_kernel, clReleaseKernel);
object!(Buffer, cl_mem, clReleaseMemObject);

/// Asks for a value of unknown size.
fn query(ask: impl Fn(usize, *mut c_void, *mut usize) -> Result<(), ClError>) -> Result<Vec<u8>, ClError> {
    let mut size = 0;
    ask(0, null_mut(), &mut size)?;
    let mut bytes = vec![0; size];
    ask(size, bytes.as_mut_ptr().cast(), null_mut())?;
    Ok(bytes)
}

fn string(mut bytes: Vec<u8>) -> String {
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An integer, of however many bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The device.
#[derive(Clone, Copy)]
pub struct Device<'l> {
    library: &'l Library,
    handle: cl_device_id,
}

impl<'l> Device<'l> {
    /// The platform's first.
    pub fn first(library: &'l Library) -> Result<Device<'l>> {
        let mut handle = null_mut();
        call!(library, clGetDeviceIDs(library.platform(), CL_DEVICE_TYPE_ALL, 1, &mut handle, null_mut()))?;
        Ok(Device { library, handle })
    }

    fn info(&self, name: cl_device_info) -> Result<Vec<u8>, ClError> {
        query(|size, value, needed| {
            call!(self.library, clGetDeviceInfo(self.handle, name, size, value, needed))
        })
    }

    pub fn string(&self, name: cl_device_info) -> Result<String, ClError> {
        self.info(name).map(string)
    }

    pub fn number(&self, name: cl_device_info) -> Result<u64, ClError> {
        self.info(name).map(|bytes| number(&bytes))
    }
}

/// One of the platform's strings.
pub fn platform_string(library: &Library, name: cl_platform_info) -> Result<String, ClError> {
    let platform = library.platform();
    query(|size, value, needed| call!(library, clGetPlatformInfo(platform, name, size, value, needed)))
        .map(string)
}

impl<'l> Context<'l> {
    pub fn new(device: &Device<'l>) -> Result<Context<'l>> {
        let (library, none) = (device.library, null_mut());
        let handle = create!(library, clCreateContext(null(), 1, &device.handle, None, none))?;
        Ok(Context { library, handle })
    }

    /// With so many bytes, all of them zero.
    pub fn buffer(&self, size: usize) -> Result<Buffer<'l>> {
        let (library, mut zeros) = (self.library, vec![0_u8; size]);
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let handle = create!(library, clCreateBuffer(self.handle, flags, size, zeros.as_mut_ptr().cast()))?;
        Ok(Buffer { library, handle })
    }
}

/// A program's text or binary, not built.
fn program<'l>(context: &Context<'l>, device: &Device<'l>, input: &Input) -> Result<Program<'l>> {
    let Input { kind, bytes } = input;
    let (library, context, length) = (context.library, context.handle, bytes.len());
    let mut start = bytes.as_ptr();
    let handle = match kind {
        Kind::OpenClC => {
            create!(library, clCreateProgramWithSource(context, 1, (&raw mut start).cast(), &length))
        }
        Kind::SpirV => create!(library, clCreateProgramWithIL(context, start.cast(), length)),
        Kind::Spir | Kind::Binary => {
            let place = &raw mut start;
            create!(
                library,
                clCreateProgramWithBinary(context, 1, &device.handle, &length, place, null_mut())
            )
        }
    };
    Ok(Program { library, handle: handle? })
}

impl<'l> Program<'l> {
    /// A built program of these inputs, linked if they are several. The error is the build log.
    pub fn build(
        context: &Context<'l>,
        device: &Device<'l>,
        inputs: &[Input],
        options: &str,
    ) -> Result<Program<'l>> {
        let options_of = |kind: Kind| match kind {
            Kind::Spir => CString::new(format!("-x spir {options}")),
            _ => CString::new(options),
        };
        let library = context.library;
        if let [input] = inputs {
            let (program, options) = (program(context, device, input)?, options_of(input.kind)?);
            let built = call!(
                library,
                clBuildProgram(program.handle, 1, &device.handle, options.as_ptr(), None, null_mut())
            );
            return program.or_log(device, built);
        }
        let mut parts = Vec::new();
        for input in inputs {
            let (part, options) = (program(context, device, input)?, options_of(input.kind)?);
            let (device_list, options) = (&raw const device.handle, options.as_ptr());
            let compiled = call!(
                library,
                clCompileProgram(
                    part.handle,
                    1,
                    device_list,
                    options,
                    0,
                    null(),
                    null_mut(),
                    None,
                    null_mut()
                )
            );
            parts.push(part.or_log(device, compiled)?);
        }
        let handles: Vec<cl_program> = parts.iter().map(|part| part.handle).collect();
        let (count, handles) = (handles.len() as cl_uint, handles.as_ptr());
        let mut status = CL_INVALID_OPERATION;
        let link = library.functions().clLinkProgram;
        let (device_list, none) = (&raw const device.handle, null_mut());
        // SAFETY: as for `create!`; but a program comes out of a link that failed, too, to tell why.
        let handle = link.map(|link| unsafe {
            link(context.handle, 1, device_list, c"".as_ptr(), count, handles, None, none, &mut status)
        });
        let linked = checked("clLinkProgram", status);
        match handle.filter(|handle| !handle.is_null()) {
            Some(handle) => Program { library, handle }.or_log(device, linked),
            None => Err(linked.err().map_or_else(|| "clLinkProgram yields nothing".into(), Into::into)),
        }
    }

    /// The program, or why a step of its failed.
    fn or_log(self, device: &Device, result: Result<(), ClError>) -> Result<Program<'l>> {
        match result {
            Ok(()) => Ok(self),
            Err(error) => {
                let log = self.log(device).unwrap_or_default();
                Err(if log.trim().is_empty() { error.into() } else { log.into() })
            }
        }
    }

    pub fn log(&self, device: &Device) -> Result<String, ClError> {
        let (program, device) = (self.handle, device.handle);
        let log = query(|size, value, needed| {
            let name = CL_PROGRAM_BUILD_LOG;
            call!(self.library, clGetProgramBuildInfo(program, device, name, size, value, needed))
        });
        log.map(string)
    }

    fn info(&self, name: cl_program_info) -> Result<Vec<u8>, ClError> {
        query(|size, value, needed| {
            call!(self.library, clGetProgramInfo(self.handle, name, size, value, needed))
        })
    }

    pub fn kernel_names(&self) -> Result<Vec<String>> {
        let names = string(self.info(CL_PROGRAM_KERNEL_NAMES)?);
        Ok(names.split(';').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// The program's binary for its only device.
    pub fn binary(&self) -> Result<Vec<u8>> {
        let size = number(&self.info(CL_PROGRAM_BINARY_SIZES)?) as usize;
        let mut binary = vec![0_u8; size];
        let mut place = binary.as_mut_ptr();
        let (name, bytes) = (CL_PROGRAM_BINARIES, size_of::<*mut u8>());
        call!(self.library, clGetProgramInfo(self.handle, name, bytes, (&raw mut place).cast(), null_mut()))?;
        Ok(binary)
    }

    pub fn kernel(&self, name: &str) -> Result<Kernel<'l>> {
        let (library, name) = (self.library, CString::new(name)?);
        Ok(Kernel { library, handle: create!(library, clCreateKernel(self.handle, name.as_ptr()))? })
    }
}

impl Kernel<'_> {
    /// Bytes of memory or numbers of work-items.
    pub fn work_group_number(
        &self,
        device: &Device,
        name: cl_kernel_work_group_info,
    ) -> Result<u64, ClError> {
        let ask = |size, value, needed| {
            call!(
                self.library,
                clGetKernelWorkGroupInfo(self.handle, device.handle, name, size, value, needed)
            )
        };
        query(ask).map(|bytes| number(&bytes))
    }

    pub fn set_buffer(&self, index: cl_uint, buffer: &Buffer) -> Result<(), ClError> {
        let (size, value) = (size_of::<cl_mem>(), (&raw const buffer.handle).cast());
        call!(self.library, clSetKernelArg(self.handle, index, size, value))
    }

    pub fn set_bytes<const N: usize>(&self, index: cl_uint, value: [u8; N]) -> Result<(), ClError> {
        call!(self.library, clSetKernelArg(self.handle, index, N, value.as_ptr().cast()))
    }
}

impl<'l> Queue<'l> {
    pub fn new(context: &Context<'l>, device: &Device<'l>) -> Result<Queue<'l>> {
        let library = context.library;
        let handle =
            create!(library, clCreateCommandQueueWithProperties(context.handle, device.handle, null()))?;
        Ok(Queue { library, handle })
    }

    /// Enqueues a launch of so many work-items.
    pub fn launch(&self, kernel: &Kernel, items: usize) -> Result<(), ClError> {
        let (queue, none) = (self.handle, null_mut());
        call!(
            self.library,
            clEnqueueNDRangeKernel(queue, kernel.handle, 1, null(), &items, null(), 0, null(), none)
        )
    }

    /// Waits until all is done.
    pub fn finish(&self) -> Result<(), ClError> {
        call!(self.library, clFinish(self.handle))
    }
}
