//! Kernels: their arguments, checked as they are set, and what the device says of them.

use crate::error::{Error, Result, Status};
use crate::execute::arena::{BLOCK_ALIGN, MAX_SCRATCH};
use crate::execute::check::Objects;
use crate::execute::children::Enqueuing;
use crate::execute::fault::Deadline;
use crate::execute::launch::{ArgumentBlock, Invocation};
use crate::execute::tiers::at_build::wait_for_optimized;
use crate::memory::image::ImageInfo;
use crate::memory::sampler::Sampler;
use crate::memory::{Mem, MemFlags, MemKind};
use crate::platform::device::{Device, DeviceInfo, MAX_WORK_GROUP_SIZE};
use crate::program::{BuiltKernel, Program};
use crate::queue::on_device::DeviceQueue;
use spirula_interface::check::Bounds;
use spirula_interface::image_formats::ImageFormats;
use spirula_interface::program::{AccessQualifier, ArgumentKind, HiddenKind, KernelInfo, Launch};
use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A `cl_kernel`.
#[derive(Debug)]
pub struct Kernel {
    /// CL_KERNEL_PROGRAM.
    pub program: Arc<Program>,
    /// Name, attributes, arguments, work-group facts.
    pub info: Arc<KernelInfo>,
    pub(crate) built: BuiltKernel,
    /// All kernels of the program, among them those that this one enqueues.
    pub(crate) siblings: Arc<[BuiltKernel]>,
    /// CL_KERNEL_WORK_GROUP_SIZE.
    max_group: usize,
    arguments: Mutex<Arc<Arguments>>,
}

/// The values set so far.
pub(crate) type Arguments = Vec<Option<Argument>>;

/// An argument's value. It does not keep a memory object, whose destructor callbacks may be waited for; a launch does.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    Bytes(Vec<u8>),
    Buffer(Option<Weak<Mem>>),
    Image(Weak<Mem>),
    Pipe(Weak<Mem>),
    Queue(Weak<DeviceQueue>),
    Sampler(Arc<Sampler>),
    Local(usize),
}

/// A value for clSetKernelArg, as [`ArgumentSlot::kind`] says it must be read.
#[derive(Clone, Debug)]
pub enum ArgumentValue<'a> {
    /// For `Value`.
    Bytes(&'a [u8]),
    /// For `Buffer` (None: a null pointer), `Image` and `Pipe`.
    Memory(Option<Arc<Mem>>),
    /// For `Queue`.
    Queue(Arc<DeviceQueue>),
    /// For `Sampler`.
    Sampler(Arc<Sampler>),
    /// For `Local`: bytes.
    Local(usize),
}

/// An argument about to be set from so many bytes, which are the right number for its kind.
#[derive(Debug)]
pub struct ArgumentSlot<'a> {
    kernel: &'a Kernel,
    index: usize,
    kind: ArgumentKind,
    size: usize,
}

impl ArgumentSlot<'_> {
    /// How the value must be read.
    pub fn kind(&self) -> ArgumentKind {
        self.kind
    }

    /// Sets it. CL_INVALID_MEM_OBJECT (a buffer for an image, another context's, …), CL_INVALID_ARG_VALUE.
    pub fn set(self, value: ArgumentValue<'_>) -> Result<()> {
        let ArgumentSlot { kernel, index, kind, size } = self;
        let argument = match (kind, value) {
            (ArgumentKind::Value { .. }, ArgumentValue::Bytes(bytes)) if bytes.len() == size => {
                Argument::Bytes(bytes.to_vec())
            }
            (ArgumentKind::Local, ArgumentValue::Local(given)) if given == size => Argument::Local(size),
            (ArgumentKind::Buffer, ArgumentValue::Memory(None)) => Argument::Buffer(None),
            (ArgumentKind::Buffer, ArgumentValue::Memory(Some(mem))) => {
                kernel.check_memory(index, &mem, kind)?;
                Argument::Buffer(Some(Arc::downgrade(&mem)))
            }
            (ArgumentKind::Image { .. } | ArgumentKind::Pipe, ArgumentValue::Memory(None)) => {
                let what = format!("is {}, but was given none", Declared(kind));
                return Err(kernel.wrong(Status::InvalidMemObject, index, what));
            }
            (ArgumentKind::Image { .. }, ArgumentValue::Memory(Some(mem))) => {
                kernel.check_memory(index, &mem, kind)?;
                kernel.check_image(index, &mem)?;
                Argument::Image(Arc::downgrade(&mem))
            }
            (ArgumentKind::Pipe, ArgumentValue::Memory(Some(mem))) => {
                kernel.check_memory(index, &mem, kind)?;
                Argument::Pipe(Arc::downgrade(&mem))
            }
            (ArgumentKind::Queue, ArgumentValue::Queue(queue)) => {
                if !Arc::ptr_eq(&queue.context, &kernel.program.context) {
                    let what = "was given another context's queue";
                    return Err(kernel.wrong(Status::InvalidDeviceQueue, index, what));
                }
                Argument::Queue(Arc::downgrade(&queue))
            }
            (ArgumentKind::Sampler, ArgumentValue::Sampler(sampler)) => Argument::Sampler(sampler),
            (kind, value) => {
                let what = format!("is {}, but was given {value:?}", Declared(kind));
                return Err(kernel.wrong(Status::InvalidArgValue, index, what));
            }
        };
        kernel.set(index, argument);
        Ok(())
    }
}

/// What an argument is, in words.
struct Declared(ArgumentKind);

impl Display for Declared {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            ArgumentKind::Value { size } => write!(f, "a value of {size} bytes"),
            ArgumentKind::Buffer => f.write_str("a buffer"),
            ArgumentKind::Image { kind, is_depth: false } => write!(f, "an image ({kind:?})"),
            ArgumentKind::Image { kind, is_depth: true } => write!(f, "a depth image ({kind:?})"),
            ArgumentKind::Pipe => f.write_str("a pipe"),
            ArgumentKind::Queue => f.write_str("a queue on the device"),
            ArgumentKind::Sampler => f.write_str("a sampler"),
            ArgumentKind::Local => f.write_str("local memory"),
        }
    }
}

/// CL_KERNEL_* of clGetKernelWorkGroupInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkGroupInfo {
    /// CL_KERNEL_WORK_GROUP_SIZE.
    pub work_group_size: usize,
    /// CL_KERNEL_COMPILE_WORK_GROUP_SIZE; zeros without the attribute.
    pub compile_work_group_size: [usize; 3],
    /// CL_KERNEL_LOCAL_MEM_SIZE: own variables and the arguments set so far.
    pub local_mem_size: u64,
    /// CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE.
    pub preferred_multiple: usize,
    /// CL_KERNEL_PRIVATE_MEM_SIZE per work-item.
    pub private_mem_size: u64,
}

impl Kernel {
    /// clCreateKernel. CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME.
    pub fn new(program: &Arc<Program>, name: &str) -> Result<Arc<Kernel>> {
        let kernels = program.attach_kernels(|kernels| {
            let named = kernels.into_iter().find(|kernel| kernel.info.signature.name == name);
            named.map(|kernel| vec![kernel]).ok_or_else(|| {
                Status::InvalidKernelName.because(format!("the program has no kernel \"{name}\""))
            })
        })?;
        let mut kernels = Kernel::over(program, kernels);
        let kernel = kernels.pop().ok_or_else(|| Status::InvalidKernelName.because(name))?;
        // Who asks for one kernel will launch it; to load its code then would take longer than many a launch, and so would making it.
        kernel.built.tiers.look_once();
        wait_for_optimized(&[&kernel.built.tiers]);
        Ok(kernel)
    }

    /// clCloneKernel (OpenCL 2.1): another kernel object with the arguments as they are now.
    pub fn duplicate(&self) -> Arc<Kernel> {
        self.program.attach_clone();
        Arc::new(Kernel {
            program: self.program.clone(),
            info: self.info.clone(),
            built: self.built.clone(),
            siblings: self.siblings.clone(),
            max_group: self.max_group,
            arguments: Mutex::new(self.arguments()),
        })
    }

    /// The program counts them as attached; `drop` takes that back.
    fn over(
        program: &Arc<Program>,
        (selected, siblings): (Vec<BuiltKernel>, Arc<[BuiltKernel]>),
    ) -> Vec<Arc<Kernel>> {
        let build = |built: BuiltKernel| {
            Arc::new(Kernel {
                program: program.clone(),
                max_group: max_group_size(&built.info),
                arguments: Mutex::new(Arc::new(vec![None; built.info.signature.arguments.len()])),
                info: built.info.clone(),
                siblings: siblings.clone(),
                built,
            })
        };
        selected.into_iter().map(build).collect()
    }

    /// The argument that clSetKernelArg is to set from `size` bytes, or from NULL. CL_INVALID_ARG_INDEX,
    /// CL_INVALID_ARG_SIZE, CL_INVALID_ARG_VALUE, CL_INVALID_SAMPLER (for NULL).
    pub fn argument(&self, index: usize, size: usize, is_null: bool) -> Result<ArgumentSlot<'_>> {
        let kind = self.kind(index)?;
        let fits = match kind {
            ArgumentKind::Value { size: wanted } => size == wanted as usize,
            ArgumentKind::Local => size > 0,
            ArgumentKind::Buffer
            | ArgumentKind::Image { .. }
            | ArgumentKind::Pipe
            | ArgumentKind::Queue
            | ArgumentKind::Sampler => size == size_of::<usize>(),
        };
        if !fits {
            let what = format!("is {}, but arg_size is {size}", Declared(kind));
            return Err(self.wrong(Status::InvalidArgSize, index, what));
        }
        let null_is_right = match kind {
            ArgumentKind::Buffer => true,
            ArgumentKind::Local => is_null,
            ArgumentKind::Value { .. }
            | ArgumentKind::Image { .. }
            | ArgumentKind::Pipe
            | ArgumentKind::Queue
            | ArgumentKind::Sampler => !is_null,
        };
        if !null_is_right {
            let status = match kind {
                ArgumentKind::Sampler => Status::InvalidSampler,
                ArgumentKind::Queue => Status::InvalidDeviceQueue,
                _ => Status::InvalidArgValue,
            };
            let given = if is_null { "NULL" } else { "not NULL" };
            return Err(self.wrong(
                status,
                index,
                format!("is {}, but arg_value is {given}", Declared(kind)),
            ));
        }
        Ok(ArgumentSlot { kernel: self, index, kind, size })
    }

    /// clSetKernelArgSVMPointer: any address, or one of SVM or null where kernels have nothing else. CL_INVALID_ARG_INDEX,
    /// CL_INVALID_ARG_VALUE.
    pub fn set_address(&self, index: usize, address: usize) -> Result<()> {
        let context = &self.program.context;
        let is_known = || address == 0 || context.svm.rest(address).is_some();
        match self.kind(index)? {
            ArgumentKind::Buffer if self.program.device.info.is_confined() && !is_known() => {
                let what = format!(
                    "was given the address {address:#x}, where clSVMAlloc gave nothing: the context's kernels can't use the system's memory"
                );
                Err(self.wrong(Status::InvalidArgValue, index, what))
            }
            ArgumentKind::Buffer => {
                self.set(index, Argument::Bytes(address.to_ne_bytes().to_vec()));
                Ok(())
            }
            kind => {
                let what = format!("is {}, but was given an address", Declared(kind));
                Err(self.wrong(Status::InvalidArgValue, index, what))
            }
        }
    }

    fn kind(&self, index: usize) -> Result<ArgumentKind> {
        let count = self.info.signature.arguments.len();
        self.info.signature.arguments.get(index).map(|argument| argument.kind).ok_or_else(|| {
            Status::InvalidArgIndex.because(format!(
                "kernel {} has {count} arguments, no argument {index}",
                self.info.signature.name
            ))
        })
    }

    fn set(&self, index: usize, argument: Argument) {
        Arc::make_mut(&mut self.lock())[index] = Some(argument);
    }

    /// An error that names the kernel and the argument.
    fn wrong(&self, status: Status, index: usize, what: impl Display) -> Error {
        let name = self.info.signature.arguments.get(index).and_then(|argument| argument.name.as_deref());
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        status.because(format!("kernel {}: argument {index}{name} {what}", self.info.signature.name))
    }

    /// CL_INVALID_MEM_OBJECT unless it is of the program's context, and a buffer, an image or a pipe as declared.
    fn check_memory(&self, index: usize, mem: &Mem, kind: ArgumentKind) -> Result<()> {
        let fits = match mem.kind {
            MemKind::Buffer | MemKind::SubBuffer { .. } => kind == ArgumentKind::Buffer,
            MemKind::Image(_) => matches!(kind, ArgumentKind::Image { .. }),
            MemKind::Pipe(_) => kind == ArgumentKind::Pipe,
        };
        if !fits {
            let what = format!("is {}, but was given {}", Declared(kind), mem.kind.name());
            return Err(self.wrong(Status::InvalidMemObject, index, what));
        }
        match Arc::ptr_eq(&mem.context, &self.program.context) {
            true => Ok(()),
            false => Err(self.wrong(Status::InvalidMemObject, index, "was given another context's object")),
        }
    }

    /// CL_INVALID_ARG_VALUE for an image of another kind, or one whose flags forbid what the kernel does.
    fn check_image(&self, index: usize, mem: &Mem) -> Result<()> {
        let declared = &self.info.signature.arguments[index];
        let given = mem
            .image_info()
            .map(|info| ArgumentKind::Image { kind: info.kind, is_depth: info.format.is_depth() });
        // What takes colors takes a depth image, too, whose depth it sees as red (OpenCL 3.0, clSetKernelArg).
        let fits = |given: ArgumentKind| match (given, declared.kind) {
            (
                ArgumentKind::Image { kind: given, is_depth: true },
                ArgumentKind::Image { kind, is_depth: false },
            ) => given == kind,
            (given, declared) => given == declared,
        };
        if let Some(given) = given.filter(|given| !fits(*given)) {
            let what = format!("is {}, but was given {}", Declared(declared.kind), Declared(given));
            return Err(self.wrong(Status::InvalidArgValue, index, what));
        }
        let forbidden = match declared.access {
            AccessQualifier::ReadOnly => MemFlags::WRITE_ONLY,
            AccessQualifier::WriteOnly => MemFlags::READ_ONLY,
            AccessQualifier::ReadWrite => MemFlags::READ_ONLY | MemFlags::WRITE_ONLY,
            AccessQualifier::None => MemFlags::empty(),
        };
        match mem.flags.intersects(forbidden) {
            true => Err(self.wrong(
                Status::InvalidArgValue,
                index,
                format!("was given an image with {:?}", mem.flags),
            )),
            false => Ok(()),
        }
    }

    /// clGetKernelWorkGroupInfo.
    pub fn work_group_info(&self) -> WorkGroupInfo {
        let mut local = LocalLayout::new(&self.info);
        for argument in self.lock().iter().flatten() {
            if let Argument::Local(size) = argument {
                local.place(*size);
            }
        }
        let required = self.info.signature.required_work_group_size.unwrap_or([0; 3]);
        WorkGroupInfo {
            work_group_size: self.max_group,
            compile_work_group_size: required.map(|size| size as usize),
            local_mem_size: local.size,
            preferred_multiple: preferred_multiple(&self.info, &self.program.device.info) as usize,
            private_mem_size: self.info.code.private_size,
        }
    }

    /// CL_KERNEL_WORK_GROUP_SIZE.
    pub(crate) fn max_group_size(&self) -> usize {
        self.max_group
    }

    /// The arguments as they are now.
    pub(crate) fn arguments(&self) -> Arc<Arguments> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Arguments>> {
        self.arguments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a launch with these arguments calls, and the memory objects that it must keep. CL_INVALID_KERNEL_ARGS if one isn't
    /// set or its object is gone; CL_OUT_OF_RESOURCES if there is not enough local memory.
    pub(crate) fn invocation(
        &self,
        arguments: &Arguments,
        device: &Device,
        launch: Launch,
    ) -> Result<(Arc<Invocation>, Vec<Arc<Mem>>)> {
        let no_memory = || {
            Status::OutOfHostMemory.because(format!("{}: no memory for arguments", self.info.signature.name))
        };
        let memory = self.program.context.place.memory.of_launches();
        let size = self.info.signature.argument_block_size as usize;
        let mut block = ArgumentBlock::new(&memory, size).ok_or_else(no_memory)?;
        let mut local = LocalLayout::new(&self.info);
        let mut kept: Vec<Arc<Mem>> = Vec::new();
        let mut all_known = true;
        let (mut formats, mut images) = (ImageFormats::UNKNOWN, 0);
        for (index, declared) in self.info.signature.arguments.iter().enumerate() {
            let Some(argument) = &arguments[index] else {
                return Err(self.wrong(Status::InvalidKernelArgs, index, "is not set"));
            };
            let offset = declared.offset as usize;
            let mut put_word = |word: usize| block.put(offset, &(word as u64).to_ne_bytes());
            let live = |mem: &Weak<Mem>| {
                mem.upgrade()
                    .ok_or_else(|| self.wrong(Status::InvalidKernelArgs, index, "names a released object"))
            };
            match argument {
                Argument::Buffer(None) => put_word(0),
                Argument::Buffer(Some(mem)) => {
                    let mem = live(mem)?;
                    put_word(mem.address() as usize);
                    kept.push(mem);
                }
                Argument::Image(mem) => {
                    let mem = live(mem)?;
                    put_word(mem.descriptor().unwrap_or(0));
                    if let Some(ImageInfo { format, .. }) = mem.image_info() {
                        formats.set(images, format.channel_order, format.channel_type);
                    }
                    images += 1;
                    kept.push(mem);
                }
                Argument::Pipe(mem) => {
                    let mem = live(mem)?;
                    put_word(mem.address() as usize);
                    kept.push(mem);
                }
                Argument::Queue(queue) => put_word(self.live_queue(index, queue)?.storage.address() as usize),
                Argument::Local(size) => put_word(local.place(*size) as usize),
                Argument::Sampler(sampler) => block.put(offset, &sampler.bits().to_ne_bytes()),
                Argument::Bytes(bytes) => {
                    // Whatever a pointer to shared virtual memory leads to.
                    all_known &= !matches!(declared.kind, ArgumentKind::Buffer);
                    block.put(offset, bytes);
                }
            }
        }
        let most = device.info.local_mem_size;
        if local.size > most {
            return Err(Status::OutOfResources.because(format!(
                "{}: {} bytes of local memory where the device has {most}",
                self.info.signature.name, local.size
            )));
        }
        let streams = u32::from(!fits_cache(&kept, &launch, device.info.cache_size));
        let disjoint_buffers = u64::from(all_known && are_disjoint(&kept));
        // As the first code says, whatever code takes its place.
        let numbered_along = self.info.code.numbered_along(launch.local_size);
        let launch = Launch { streams, disjoint_buffers, numbered_along, formats, ..launch };
        let invocation = Arc::new(Invocation {
            tiers: self.built.tiers.clone(),
            arguments: block,
            memory,
            launch,
            local_size: local.size as usize,
            deadline: Deadline::NEVER,
            objects: self.objects(arguments),
            group_times: Default::default(),
        });
        Ok((invocation, kept))
    }

    /// What a checked kernel may access with these arguments; nothing is asked for any other.
    fn objects(&self, arguments: &Arguments) -> Objects {
        let signature = &self.info.signature;
        if signature.hidden_offset(HiddenKind::Checks).is_none() {
            return Objects::default();
        }
        let svm = self.program.context.svm.bounds();
        let bounds = |argument: &Option<Argument>| match argument {
            Some(Argument::Buffer(Some(mem))) => mem.upgrade().map_or_else(Bounds::default, |mem| {
                let (base, readable) = (mem.address() as u64, mem.size as u64);
                let writable = if mem.flags.contains(MemFlags::READ_ONLY) { 0 } else { readable };
                Bounds { base, readable, writable, offset: 0, shadow: mem.shadow() }
            }),
            Some(Argument::Bytes(bytes)) => {
                let address = bytes[..].try_into().map_or(0, u64::from_ne_bytes);
                let contains = |object: &&Bounds| address.wrapping_sub(object.base) <= object.offset;
                match svm.iter().rfind(contains) {
                    _ if address == 0 => Bounds::default(),
                    Some(object) => Bounds { offset: address - object.base, ..*object },
                    // The system's memory, of which nobody knows the objects.
                    None => Bounds { offset: address, ..Bounds::of_anything(0, u64::MAX) },
                }
            }
            Some(Argument::Local(size)) => {
                Bounds { readable: *size as u64, writable: *size as u64, ..Bounds::default() }
            }
            _ => Bounds::default(),
        };
        let arguments: Vec<Bounds> = arguments.iter().map(bounds).collect();
        let known = signature.arguments.iter().zip(&arguments);
        let buffers =
            known.filter(|(declared, bounds)| declared.kind == ArgumentKind::Buffer && bounds.offset == 0);
        let buffers = buffers.map(|(_, bounds)| Bounds { offset: bounds.readable, ..*bounds });
        let buffers = buffers.filter(|bounds| bounds.readable > 0);
        let others = buffers.chain(svm.iter().copied()).collect();
        let data = self.built.tiers.first().code.data();
        Objects { arguments, others, data: data.start as u64..data.end as u64 }
    }

    /// The queue that an argument names. CL_INVALID_KERNEL_ARGS if it is gone.
    fn live_queue(&self, index: usize, queue: &Weak<DeviceQueue>) -> Result<Arc<DeviceQueue>> {
        let gone = || self.wrong(Status::InvalidKernelArgs, index, "names a released queue");
        queue.upgrade().ok_or_else(gone)
    }

    /// What a launch on this device holds to enqueue kernels; None if it can't.
    pub(crate) fn enqueuing(&self, arguments: &Arguments, device: &Arc<Device>) -> Result<Option<Enqueuing>> {
        if self.info.signature.hidden_offset(HiddenKind::Parent).is_none() {
            return Ok(None);
        }
        let default = self.program.context.device_queues.default_of(device);
        let mut queues: Vec<Arc<DeviceQueue>> = default.iter().cloned().collect();
        for (index, argument) in arguments.iter().enumerate() {
            if let Some(Argument::Queue(queue)) = argument {
                let queue = self.live_queue(index, queue)?;
                if queues.iter().all(|other| !Arc::ptr_eq(other, &queue)) {
                    queues.push(queue);
                }
            }
        }
        Ok(Some(Enqueuing { kernels: self.siblings.clone(), queues, default }))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.program.detach_kernel();
    }
}

/// Local memory: the kernel's own variables, then its local arguments, each aligned.
pub(crate) struct LocalLayout {
    pub size: u64,
}

impl LocalLayout {
    pub(crate) fn new(info: &KernelInfo) -> LocalLayout {
        LocalLayout { size: info.code.static_local_size }
    }

    /// Appends an argument; returns its offset.
    pub(crate) fn place(&mut self, size: usize) -> u64 {
        let offset =
            self.size.saturating_add(BLOCK_ALIGN as u64 - 1) / BLOCK_ALIGN as u64 * BLOCK_ALIGN as u64;
        self.size = offset.saturating_add(size as u64);
        offset
    }
}

/// The largest group whose scratch is bearable, a power of two; or the required one.
pub(crate) fn max_group_size(info: &KernelInfo) -> usize {
    let bearable = |items: &usize| info.code.scratch_size(*items as u64) <= MAX_SCRATCH;
    let mut sizes = std::iter::successors(Some(MAX_WORK_GROUP_SIZE), |size| (*size > 1).then_some(size / 2));
    let items = |size: [u32; 3]| size.iter().fold(1_usize, |all, &size| all.saturating_mul(size as usize));
    let required = info.signature.required_work_group_size.map(items);
    required.or_else(|| sizes.find(bearable)).unwrap_or(1).min(MAX_WORK_GROUP_SIZE)
}

/// CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE. Programs take it for the size of their groups. Where groups matter, a small one takes
/// as long to begin, and to go from barrier to barrier, as one of some packs.
pub(crate) fn preferred_multiple(info: &KernelInfo, device: &DeviceInfo) -> u32 {
    const PACKS: u32 = 4;
    let (pack, most) = (device.native_vector_width.float, max_group_size(info) as u32);
    let is_free = info.signature.required_work_group_size.is_none() && pack * PACKS <= most;
    if info.code.sees_group && is_free { pack * PACKS } else { pack }
}

/// Bytes of a buffer that a work-item is taken to use at most: of a large buffer a launch may need little.
const ITEM_BYTES: u64 = 16;

/// Whether what a launch uses of its memory objects may still be in the last cache when the next one comes.
fn fits_cache(objects: &[Arc<Mem>], launch: &Launch, cache: u64) -> bool {
    let items = launch.global_size.iter().fold(1_u64, |all, &size| all.saturating_mul(size));
    let used = items.saturating_mul(ITEM_BYTES);
    let all = objects.iter().fold(0_u64, |all, mem| all.saturating_add(used.min(mem.size as u64)));
    all < cache
}

/// Whether no two objects have memory in common.
fn are_disjoint(objects: &[Arc<Mem>]) -> bool {
    let shares = |(number, mem): (usize, &Arc<Mem>)| objects[..number].iter().any(|o| o.shares_storage(mem));
    !objects.iter().enumerate().any(shares)
}

mod sub_groups;
#[cfg(test)]
pub(crate) mod tests;
