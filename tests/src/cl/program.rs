//! Programs from binaries, and their kernels.

use super::object::object;
use super::{Context, Device, Object, Result, query, query_string};
use crate::cl::sys::*;
use crate::{call, create};
use bytemuck::Pod;
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// The build options of every SPIR 1.2 binary.
pub const SPIR12: &str = "-x spir -spir-std=1.2";

object!(
    /// A program.
    Program, clRetainProgram, clReleaseProgram, clGetProgramInfo
);

impl Program {
    /// A program from one binary for one device.
    pub fn from_binary(context: &Context, device: Device, binary: &[u8]) -> Result<Program> {
        let (length, start, mut status) = (binary.len(), binary.as_ptr(), CL_SUCCESS);
        let handle = create!(clCreateProgramWithBinary(
            context.raw(),
            1,
            &device.raw(),
            &length,
            &start,
            &mut status
        ))?;
        Ok(Program(handle))
    }

    /// A program from SPIR-V.
    pub fn from_il(context: &Context, il: &[u8]) -> Result<Program> {
        Ok(Program(create!(clCreateProgramWithIL(context.raw(), il.as_ptr().cast(), il.len()))?))
    }

    /// A program from OpenCL C source.
    pub fn from_source(context: &Context, source: &str) -> Result<Program> {
        let (length, mut start) = (source.len(), source.as_ptr().cast());
        Ok(Program(create!(clCreateProgramWithSource(context.raw(), 1, &mut start, &length))?))
    }

    /// Builds an executable.
    pub fn build(&self, options: &str) -> Result<()> {
        let options = c_string(options);
        call!(clBuildProgram(self.raw(), 0, null(), options.as_ptr(), None, null_mut()))
    }

    /// Compiles without linking.
    pub fn compile(&self, options: &str) -> Result<()> {
        let options = c_string(options);
        call!(clCompileProgram(self.raw(), 0, null(), options.as_ptr(), 0, null(), null(), None, null_mut()))
    }

    /// Links compiled programs into an executable or, with `-create-library`, a library.
    pub fn link(context: &Context, options: &str, parts: &[&Program]) -> Result<Program> {
        let options = c_string(options);
        let handles: Vec<_> = parts.iter().map(|p| p.raw()).collect();
        let handle = create!(clLinkProgram(
            context.raw(),
            0,
            null(),
            options.as_ptr(),
            handles.len() as cl_uint,
            handles.as_ptr(),
            None,
            null_mut()
        ))?;
        Ok(Program(handle))
    }

    /// A fixed-size property of the last build.
    pub fn build_info<T: Pod>(&self, device: Device, name: cl_uint) -> Result<T> {
        query(|size, value, needed| {
            call!(clGetProgramBuildInfo(self.raw(), device.raw(), name, size, value, needed))
        })
    }

    /// A string property of the last build.
    pub fn build_info_string(&self, device: Device, name: cl_uint) -> Result<String> {
        query_string(|size, value, needed| {
            call!(clGetProgramBuildInfo(self.raw(), device.raw(), name, size, value, needed))
        })
    }

    /// The build log.
    pub fn log(&self, device: Device) -> Result<String> {
        self.build_info_string(device, CL_PROGRAM_BUILD_LOG)
    }

    /// The program's binary for its only device.
    pub fn binary(&self) -> Result<Vec<u8>> {
        let size = self.info::<usize>(CL_PROGRAM_BINARY_SIZES)?;
        let mut binary = vec![0u8; size];
        let pointer = binary.as_mut_ptr();
        let place = (&raw const pointer).cast_mut().cast();
        call!(clGetProgramInfo(self.raw(), CL_PROGRAM_BINARIES, size_of::<*mut u8>(), place, null_mut()))?;
        Ok(binary)
    }

    /// One object for each kernel, in the program's order.
    pub fn kernels(&self) -> Result<Vec<Kernel>> {
        let mut count = 0;
        call!(clCreateKernelsInProgram(self.raw(), 0, null_mut(), &mut count))?;
        let mut handles = vec![null_mut(); count as usize];
        call!(clCreateKernelsInProgram(self.raw(), count, handles.as_mut_ptr(), null_mut()))?;
        Ok(handles.into_iter().map(Kernel::from_raw).collect())
    }
}

object!(
    /// A kernel with its arguments.
    Kernel, clRetainKernel, clReleaseKernel, clGetKernelInfo
);

impl Kernel {
    /// The program's kernel of this name.
    pub fn new(program: &Program, name: &str) -> Result<Kernel> {
        let name = c_string(name);
        Ok(Kernel(create!(clCreateKernel(program.raw(), name.as_ptr()))?))
    }

    /// Sets an argument passed by value.
    pub fn set<T: Pod>(&self, index: u32, value: T) -> Result<()> {
        self.set_bytes(index, bytemuck::bytes_of(&value))
    }

    /// Sets an argument passed by value, from its bytes.
    pub fn set_bytes(&self, index: u32, bytes: &[u8]) -> Result<()> {
        call!(clSetKernelArg(self.raw(), index, bytes.len(), bytes.as_ptr().cast()))
    }

    /// Sets a buffer, image, sampler, pipe or queue; `None` is the null pointer.
    pub fn set_object(&self, index: u32, object: Option<&dyn Object>) -> Result<()> {
        let handle = object.map_or(null_mut(), Object::raw);
        call!(clSetKernelArg(self.raw(), index, size_of_val(&handle), (&raw const handle).cast()))
    }

    /// Sets a `local` pointer to so many bytes.
    pub fn set_local(&self, index: u32, bytes: usize) -> Result<()> {
        call!(clSetKernelArg(self.raw(), index, bytes, null()))
    }

    /// A fixed-size property of an argument.
    pub fn arg_info<T: Pod>(&self, index: u32, name: cl_uint) -> Result<T> {
        query(|size, value, needed| call!(clGetKernelArgInfo(self.raw(), index, name, size, value, needed)))
    }

    /// A string property of an argument.
    pub fn arg_info_string(&self, index: u32, name: cl_uint) -> Result<String> {
        query_string(|size, value, needed| {
            call!(clGetKernelArgInfo(self.raw(), index, name, size, value, needed))
        })
    }

    /// A property for a device.
    pub fn work_group_info<T: Pod>(&self, device: Device, name: cl_uint) -> Result<T> {
        query(|size, value, needed| {
            call!(clGetKernelWorkGroupInfo(self.raw(), device.raw(), name, size, value, needed))
        })
    }
}

/// C's form of a string that the tests wrote themselves.
fn c_string(text: &str) -> CString {
    CString::new(text).expect("no zero byte in a test's string")
}
