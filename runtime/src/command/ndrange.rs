//! Kernel launches: the checks of clEnqueueNDRangeKernel and the choice of a work-group size.

use super::{COMMAND_NS, Command, CommandType, Template, Work};
use crate::context::Context;
use crate::error::{Error, Result, Status};
use crate::execute::check::Checking;
use crate::execute::children::{Enqueuing, Waves};
use crate::execute::fault::Deadline;
use crate::execute::group_size;
use crate::execute::launch::{self, Invocation};
use crate::execute::output::{record, stdout};
use crate::execute::pace::WORTH_WAKING_NS;
use crate::execute::tiers::Tiers;
use crate::kernel::{Arguments, Kernel};
use crate::log;
use crate::memory::Mem;
use crate::platform::device::Device;
use spirula_interface::program::{HiddenKind, KernelInfo, Launch};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A launch that was checked, with what it must hold until it ends.
pub(crate) struct KernelLaunch {
    invocation: Arc<Invocation>,
    /// What does not fit into groups of that size.
    rest: Vec<Arc<Invocation>>,
    info: Arc<KernelInfo>,
    /// What it enqueues kernels with, if it may.
    enqueuing: Option<Enqueuing>,
    context: Arc<Context>,
    /// The memory objects that its arguments name.
    _memory: Vec<Arc<Mem>>,
}

impl KernelLaunch {
    pub(crate) fn tiers(&self) -> &Arc<Tiers> {
        &self.invocation.tiers
    }

    /// Its work-items, but for those that don't fit into groups of its size.
    pub(crate) fn items(&self) -> u64 {
        self.invocation.groups().saturating_mul(self.invocation.group_items())
    }

    /// Runs it, prints what it printed, and runs what it enqueued. `ended` is called in between. CL_OUT_OF_RESOURCES without
    /// memory, and what kernels that it enqueued ended with.
    pub(crate) fn run(self, device: &Device, ended: &dyn Fn()) -> Result<()> {
        let KernelLaunch { invocation, rest, info, enqueuing, context, _memory } = self;
        let deadline = Deadline::of_command();
        let parts = std::iter::once(invocation).chain(rest).map(|mut part| {
            if deadline != Deadline::NEVER {
                launch::prepare(&mut part).deadline = deadline;
            }
            part
        });
        let told = log::wants_info().then(|| (info.clone(), Instant::now()));
        let result = match enqueuing {
            None => run_kernel(device, &info, parts, Some(&context)),
            Some(enqueuing) => enqueuing.run(device, &context, Waves::new(info, parts), deadline, ended),
        };
        if let Some((info, begun)) = told {
            tell_if_slow(&info.signature.name, begun.elapsed(), &result);
        }
        result
    }
}

/// Launches that take so long are told of by `SPIRULA_LOG=info`.
const SLOW: Duration = Duration::from_millis(100);

fn tell_if_slow(kernel: &str, took: Duration, result: &Result<()>) {
    if took >= SLOW {
        let how = if result.is_ok() { "" } else { ", and failed" };
        log::info(format_args!("a launch of kernel {kernel} took {took:.1?}{how}"));
    }
}

/// Runs the parts of a kernel's launch, prints what they printed, and tells what its checks found, the context too.
pub(crate) fn run_kernel(
    device: &Device,
    info: &KernelInfo,
    parts: impl IntoIterator<Item = Arc<Invocation>>,
    context: Option<&Context>,
) -> Result<()> {
    let mut parts = parts.into_iter().peekable();
    let Some(first) = parts.peek() else { return Ok(()) };
    let Some(checking) = Checking::begin(info, first)? else {
        return run_parts(device, info, parts);
    };
    let launch = first.launch;
    let result = run_parts(
        device,
        info,
        parts.map(|mut part| {
            checking.give(info, launch::prepare(&mut part));
            part
        }),
    );
    result.and(checking.end(info, &launch, context))
}

fn run_parts(
    device: &Device,
    info: &KernelInfo,
    parts: impl IntoIterator<Item = Arc<Invocation>>,
) -> Result<()> {
    let mut parts = parts.into_iter().peekable();
    let run = |part| device.scheduler.run(&part).map_err(|error| of_kernel(info, &error));
    let Some(calls) = &info.signature.printf else { return parts.try_for_each(run) };
    let own = parts.peek().and_then(|part| part.tiers.first().code.at().output.clone());
    let buffers = own.as_deref().unwrap_or(&device.output_buffers);
    let buffer = buffers.take().ok_or_else(|| {
        Status::OutOfResources
            .because(format!("kernel {}: no memory for what it prints", info.signature.name))
    })?;
    let result = parts.try_for_each(|mut part| {
        if let Some(offset) = info.signature.hidden_offset(HiddenKind::PrintfBuffer) {
            launch::prepare(&mut part).arguments.put(offset as usize, &buffer.address().to_ne_bytes());
        }
        run(part)
    });
    let records = buffers.give_back(buffer);
    record::print(calls, &records, stdout::print);
    result
}

/// An error with the kernel's name.
pub(crate) fn of_kernel(info: &KernelInfo, error: &Error) -> Error {
    error.status.because(format!("kernel {}: {}", info.signature.name, error.detail))
}

/// Private memory of a group that fits any thread's stack.
const SMALL_STACK: u64 = 64 << 10;

/// clEnqueueNDRangeKernel. `global.len()` is work_dim; the optional ones are as long. The kernel's arguments are taken as
/// they are now. A range without work-items runs nothing (OpenCL 2.1). Errors: CL_INVALID_WORK_DIMENSION, _GLOBAL_WORK_SIZE,
/// _WORK_GROUP_SIZE, _WORK_ITEM_SIZE, _GLOBAL_OFFSET, _KERNEL_ARGS, CL_OUT_OF_RESOURCES for too much local memory.
pub fn ndrange(
    kernel: &Kernel,
    device: &Arc<Device>,
    offset: Option<&[usize]>,
    global: &[usize],
    local: Option<&[usize]>,
) -> Result<Command> {
    launch(kernel, &kernel.arguments(), device, offset, global, local)
}

/// What makes [`ndrange`]'s command with the arguments that the kernel has now.
pub fn template(
    kernel: Arc<Kernel>,
    device: Arc<Device>,
    offset: Option<Vec<usize>>,
    global: Vec<usize>,
    local: Option<Vec<usize>>,
) -> impl Template {
    let arguments = kernel.arguments();
    move || launch(&kernel, &arguments, &device, offset.as_deref(), &global, local.as_deref())
}

/// [`ndrange`] with these arguments.
fn launch(
    kernel: &Kernel,
    arguments: &Arguments,
    device: &Arc<Device>,
    offset: Option<&[usize]>,
    global: &[usize],
    local: Option<&[usize]>,
) -> Result<Command> {
    let range = check_range(kernel, device, offset, global, local)?;
    // What is found is told of the groups that the application asked for.
    let checked = kernel.info.signature.hidden_offset(HiddenKind::Checks).is_some();
    let bound = kernel.info.code.sees_group || kernel.info.code.scratch_per_item > 0 || checked;
    let parts = if bound { range.divided() } else { regrouped(&range, kernel, device) };
    let Some((&first, rest)) = parts.split_first() else {
        // Nobody will be in a group.
        let none = Range { local_size: [1; 3], ..range };
        kernel.invocation(arguments, device, none.whole())?;
        return Ok(Command::nothing(CommandType::NdrangeKernel, Some(kernel.program.context.clone())));
    };
    let (invocation, memory) = kernel.invocation(arguments, device, first)?;
    let rest = rest.iter().map(|&part| Ok(kernel.invocation(arguments, device, part)?.0));
    let rest = rest.collect::<Result<Vec<_>>>()?;
    let items = range.global_size.iter().product();
    let enqueuing = kernel.enqueuing(arguments, device)?;
    // Nobody knows what the kernels that it enqueues need.
    let alone = enqueuing.is_none();
    let anywhere =
        alone && kernel.info.code.private_size.saturating_mul(invocation.group_items()) <= SMALL_STACK;
    let expected_ns = match alone {
        true => kernel.built.tiers.pace.estimate_ns(items).saturating_add(COMMAND_NS),
        false => u64::MAX,
    };
    Ok(Command {
        command_type: CommandType::NdrangeKernel,
        work: Work::Kernel(Box::new(KernelLaunch {
            invocation,
            rest,
            info: kernel.info.clone(),
            enqueuing,
            context: kernel.program.context.clone(),
            _memory: memory,
        })),
        context: Some(kernel.program.context.clone()),
        expected_ns,
        anywhere,
    })
}

/// The work-group size that [`ndrange`] would choose. Errors as there.
pub fn suggest(
    kernel: &Kernel,
    device: &Device,
    offset: Option<&[usize]>,
    global: &[usize],
) -> Result<[usize; 3]> {
    let range = check_range(kernel, device, offset, global, None)?;
    // CL_INVALID_GLOBAL_WORK_SIZE if … any of the values specified in global_work_size are 0.
    let Some(&launch) = range.divided().first() else {
        return Err(Status::InvalidGlobalWorkSize.because(format!("global size {global:?}")));
    };
    kernel.invocation(&kernel.arguments(), device, launch)?;
    Ok(range.local_size.map(|size| size as usize))
}

/// clEnqueueTask.
pub fn task(kernel: &Kernel, device: &Arc<Device>) -> Result<Command> {
    let mut command = ndrange(kernel, device, None, &[1], Some(&[1]))?;
    command.command_type = CommandType::Task;
    Ok(command)
}

/// An NDRange, padded to three dimensions.
#[derive(Clone, Copy)]
struct Range {
    dimensions: u32,
    global_offset: [u64; 3],
    global_size: [u64; 3],
    local_size: [u64; 3],
}

impl Range {
    fn divided(&self) -> Vec<Launch> {
        Launch::divided(self.dimensions, self.global_offset, self.global_size, self.local_size)
    }

    fn whole(&self) -> Launch {
        Launch::whole(self.dimensions, self.global_offset, self.global_size, self.local_size)
    }

    /// Whether all groups have the same size.
    fn is_uniform(&self) -> bool {
        (0..3).all(|axis| self.global_size[axis].is_multiple_of(self.local_size[axis]))
    }
}

/// The NDRange, if it is one that the kernel and the device can run.
fn check_range(
    kernel: &Kernel,
    device: &Device,
    offset: Option<&[usize]>,
    global: &[usize],
    local: Option<&[usize]>,
) -> Result<Range> {
    let name = &kernel.info.signature.name;
    let dimensions = global.len();
    if !(1..=3).contains(&dimensions) {
        return Err(Status::InvalidWorkDimension.because(format!("{name}: {dimensions} dimensions")));
    }
    if offset.is_some_and(|offset| offset.len() != dimensions)
        || local.is_some_and(|local| local.len() != dimensions)
    {
        return Err(Status::InvalidValue.because(format!("{name}: sizes of different dimensions")));
    }
    let padded = |values: &[usize], missing: u64| -> [u64; 3] {
        std::array::from_fn(|axis| values.get(axis).map_or(missing, |&value| value as u64))
    };
    let global_size = padded(global, 1);
    if global_size.iter().try_fold(1u64, |all, &size| all.checked_mul(size)).is_none() {
        return Err(Status::InvalidGlobalWorkSize.because(format!("{name}: global size {global:?}")));
    }
    let global_offset = padded(offset.unwrap_or(&[]), 0);
    if (0..3).any(|axis| global_offset[axis].checked_add(global_size[axis]).is_none()) {
        return Err(Status::InvalidGlobalOffset
            .because(format!("{name}: offset {global_offset:?} + {global:?} overflows")));
    }
    // CL_INVALID_GLOBAL_WORK_SIZE if any of the values … exceed the maximum value representable by size_t on the device.
    let most = if device.info.addresses.is_linear() { u64::from(u32::MAX) } else { u64::MAX };
    if global_size.iter().any(|&size| size > most) {
        return Err(Status::InvalidGlobalWorkSize
            .because(format!("{name}: global size {global:?} on a device of 32 bits")));
    }
    if (0..3).any(|axis| global_offset[axis] + global_size[axis] > most) {
        return Err(Status::InvalidGlobalOffset
            .because(format!("{name}: offset {global_offset:?} + {global:?} on a device of 32 bits")));
    }
    let local_size = match local {
        // Nobody will be in a group.
        _ if global_size.contains(&0) => [1; 3],
        Some(local) => check_local(kernel, device, global_size, padded(local, 1))?,
        None => choose_local(kernel, device, global_size)?,
    };
    Ok(Range { dimensions: dimensions as u32, global_offset, global_size, local_size })
}

/// A launch that takes less stays one group, even if no other CPU has any.
const WORTH_SPLITTING_NS: u64 = 4 * WORTH_WAKING_NS;

/// The range in the groups that run best, and what is left over.
fn regrouped(range: &Range, kernel: &Kernel, device: &Device) -> Vec<Launch> {
    if range.global_size.contains(&0) {
        return Vec::new();
    }
    let threads = device.scheduler.threads() as u64;
    let rows = group_size::Rows::along(kernel.info.code.row_dimension);
    let global_size = rows.first(range.global_size);
    let local_size = match range.is_uniform() {
        true => rows.first(range.local_size),
        false => group_size::good(global_size, kernel.max_group_size() as u64, threads),
    };
    let tiers = &kernel.built.tiers;
    let may_get_better = tiers.may_get_better();
    let lanes = u64::from(tiers.lanes());
    let local_size = group_size::unseen(global_size, local_size, threads, lanes, may_get_better);
    let takes = |ns| !tiers.pace.is_known() || tiers.pace.estimate_ns(global_size.iter().product()) >= ns;
    let local_size = match takes(WORTH_WAKING_NS) {
        true => group_size::shared_out(global_size, local_size, threads, lanes),
        false => local_size,
    };
    let launch = Range { local_size: rows.back(local_size), ..*range }.whole();
    let takes_long = takes(WORTH_SPLITTING_NS);
    let split = group_size::split(&launch, rows, (threads, lanes), takes_long);
    split.map_or_else(|| vec![launch], |(most, rest)| vec![most, rest])
}

/// The application's work-group size, if it can be.
fn check_local(kernel: &Kernel, device: &Device, global: [u64; 3], local: [u64; 3]) -> Result<[u64; 3]> {
    let name = &kernel.info.signature.name;
    let wrong =
        |why: String| Status::InvalidWorkGroupSize.because(format!("{name}: local size {local:?} {why}"));
    if local.contains(&0) {
        return Err(wrong("has no work-items".into()));
    }
    if !kernel.info.signature.remainder_groups && (0..3).any(|axis| !global[axis].is_multiple_of(local[axis]))
    {
        return Err(wrong(format!(
            "doesn't divide the global size {global:?}, as it must before OpenCL C 2.0 and with -cl-uniform-work-group-size"
        )));
    }
    if let Some(required) = kernel.info.signature.required_work_group_size
        && required.map(u64::from) != local
    {
        return Err(wrong(format!("where the kernel requires {required:?}")));
    }
    let most = device.info.max_work_item_sizes;
    if (0..3).any(|axis| local[axis] > most[axis] as u64) {
        return Err(
            Status::InvalidWorkItemSize.because(format!("{name}: local size {local:?}, at most {most:?}"))
        );
    }
    let most = kernel.max_group_size() as u64;
    if local.iter().product::<u64>() > most {
        return Err(wrong(format!("has more than {most} work-items")));
    }
    Ok(local)
}

/// A work-group size for a NULL `local_work_size`: the required one, or one that vectorizes and balances well.
fn choose_local(kernel: &Kernel, device: &Device, global: [u64; 3]) -> Result<[u64; 3]> {
    if let Some(required) = kernel.info.signature.required_work_group_size {
        return check_local(kernel, device, global, required.map(u64::from));
    }
    let (most, threads) = (kernel.max_group_size() as u64, device.scheduler.threads() as u64);
    let global = if kernel.info.code.sees_group { group_size::rows_alone(global) } else { global };
    let dividing = group_size::good(global, most, threads);
    Ok(match kernel.info.signature.remainder_groups {
        true => group_size::better(global, dividing, most, threads),
        false => dividing,
    })
}
