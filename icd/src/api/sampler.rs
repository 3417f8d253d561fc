//! `cl_sampler` (OpenCL 1.2, 5.5).

use crate::abi::{Handle, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::distinct;
use crate::api::image::check_image_support;
use crate::error::{Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::memory::sampler::Sampler as Core;
use std::sync::Arc;

/// A `cl_sampler`.
pub struct Sampler {
    /// The sampler itself.
    pub core: Arc<Core>,
    /// CL_SAMPLER_CONTEXT.
    context: Link<Context>,
    /// CL_SAMPLER_PROPERTIES: pairs and the closing zero as the application gave them; empty when it gave none.
    properties: Vec<cl::cl_sampler_properties>,
}

impl ClObject for Sampler {
    const NAME: &'static str = "cl_sampler";
    const INVALID: cl::cl_int = cl::CL_INVALID_SAMPLER;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.context.clone())
    }
}

/// clCreateSampler.
pub fn create(
    context: Handle<Context>,
    normalized_coords: cl::cl_bool,
    addressing_mode: cl::cl_addressing_mode,
    filter_mode: cl::cl_filter_mode,
) -> Status<NewHandle> {
    create_listed(context, normalized_coords, addressing_mode, filter_mode, Vec::new())
}

/// The part that both ways to make a sampler share.
fn create_listed(
    context: Handle<Context>,
    normalized_coords: cl::cl_bool,
    addressing_mode: cl::cl_addressing_mode,
    filter_mode: cl::cl_filter_mode,
    properties: Vec<cl::cl_sampler_properties>,
) -> Status<NewHandle> {
    let context = context.get()?;
    check_image_support(&context)?;
    // CL_INVALID_VALUE if addressing_mode, filter_mode or normalized_coords or combination of these argument values are
    // not valid.
    let valid = normalized_coords <= cl::CL_TRUE;
    fail_if(!valid, cl::CL_INVALID_VALUE, "normalized_coords is neither CL_TRUE nor CL_FALSE")?;
    let core = Core::new(&context.core, normalized_coords == cl::CL_TRUE, addressing_mode, filter_mode)?;
    Ok(NewHandle::new(Sampler { core, context: context.link()?, properties }))
}

/// clCreateSamplerWithProperties (OpenCL 2.0).
pub fn create_with_properties(
    context: Handle<Context>,
    sampler_properties: In<cl::cl_sampler_properties>,
) -> Status<NewHandle> {
    let (mut normalized, mut addressing, mut filter) =
        (cl::CL_TRUE, cl::CL_ADDRESS_CLAMP, cl::CL_FILTER_NEAREST);
    for (name, value) in distinct(&sampler_properties, cl::CL_INVALID_VALUE)? {
        match (u32::try_from(name), u32::try_from(value)) {
            (Ok(cl::CL_SAMPLER_NORMALIZED_COORDS), Ok(value)) => normalized = value,
            (Ok(cl::CL_SAMPLER_ADDRESSING_MODE), Ok(value)) => addressing = value,
            (Ok(cl::CL_SAMPLER_FILTER_MODE), Ok(value)) => filter = value,
            _ => fail(
                cl::CL_INVALID_VALUE,
                format!("property {name:#x} or its value {value:#x} is not valid"),
            )?,
        }
    }
    create_listed(context, normalized, addressing, filter, sampler_properties.property_list())
}

/// clGetSamplerInfo.
pub fn get_info(
    sampler: Handle<Sampler>,
    param_name: cl::cl_sampler_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let sampler = sampler.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_SAMPLER_REFERENCE_COUNT => answer.value(sampler.reference_count()),
        cl::CL_SAMPLER_CONTEXT => answer.object(&sampler.context),
        cl::CL_SAMPLER_PROPERTIES => answer.list(&sampler.properties),
        cl::CL_SAMPLER_NORMALIZED_COORDS => answer.flag(sampler.core.normalized_coords),
        cl::CL_SAMPLER_ADDRESSING_MODE => answer.value(sampler.core.addressing_mode as u32),
        cl::CL_SAMPLER_FILTER_MODE => answer.value(sampler.core.filter_mode as u32),
        _ => unknown(param_name),
    })
}
