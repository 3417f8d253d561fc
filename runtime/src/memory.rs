//! Memory objects: buffers, sub-buffers, images and pipes over one kind of storage; mappings and destructor callbacks.

pub mod flags;
pub mod format;
pub mod image;
pub(crate) mod pipe;
pub(crate) mod pool;
pub mod raw;
pub(crate) mod rect;
pub mod sampler;
pub mod svm;
mod written;

pub use flags::{MapFlags, MemFlags};
pub use format::ImageFormat;
pub use image::{ImageDescription, ImageInfo};
pub use pipe::PipeInfo;
pub use raw::HostPtr;

use crate::context::Context;
use crate::error::{Error, Result, Status};
use pool::Pool;
use raw::{Allocation, Placed, Span};
use rect::Placement;
use spirula_interface::ImageDescriptor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use written::Written;

/// A `cl_mem`: a buffer, a sub-buffer, an image or a pipe.
pub struct Mem {
    /// CL_MEM_CONTEXT.
    pub context: Arc<Context>,
    /// CL_MEM_FLAGS; a sub-buffer's inherited ones are filled in.
    pub flags: MemFlags,
    /// CL_MEM_SIZE in bytes.
    pub size: usize,
    /// CL_MEM_HOST_PTR: the application's pointer of CL_MEM_USE_HOST_PTR (a sub-buffer's includes its origin).
    pub host_ptr: Option<HostPtr>,
    /// What it is.
    pub kind: MemKind,
    storage: Arc<Storage>,
    /// An image's [`spirula_interface::ImageDescriptor`].
    descriptor: Option<Placed<ImageDescriptor>>,
    maps: Mutex<Vec<Mapped>>,
    destructors: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// What a memory object is.
#[derive(Debug)]
pub enum MemKind {
    /// clCreateBuffer's.
    Buffer,
    /// clCreateSubBuffer's.
    SubBuffer {
        /// CL_MEM_ASSOCIATED_MEMOBJECT.
        parent: Arc<Mem>,
        /// CL_MEM_OFFSET in bytes.
        origin: usize,
    },
    /// clCreateImage's.
    Image(ImageInfo),
    /// clCreatePipe's.
    Pipe(PipeInfo),
}

impl MemKind {
    /// What it is, in words.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            MemKind::Buffer | MemKind::SubBuffer { .. } => "a buffer",
            MemKind::Image(_) => "an image",
            MemKind::Pipe(_) => "a pipe",
        }
    }
}

/// Where the bytes are; shared by a buffer and what is made of it.
#[derive(Debug)]
enum Storage {
    Own(Allocation, Option<Written>),
    Host(HostPtr, usize),
    /// Of the application's memory, which kernels can't use: who maps it gets copies there ("implementations are allowed to cache the
    /// buffer contents pointed to by host_ptr in device memory").
    Cached(Allocation, HostPtr),
}

/// A mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub address: usize,
    /// The box of bytes, rows, slices.
    pub place: Placement,
    pub region: [usize; 3],
    /// Whether the application may have written to it.
    pub writes: bool,
}

impl Storage {
    /// Storage as `flags` ask for, of `size` bytes.
    fn new(
        context: &Context,
        flags: MemFlags,
        size: usize,
        host_ptr: Option<HostPtr>,
        written: Option<Written>,
    ) -> Result<Arc<Storage>> {
        let used = host_ptr.filter(|_| flags.contains(MemFlags::USE_HOST_PTR));
        let is_usable = |pointer: HostPtr| {
            !context.memory.is_shared() || context.svm.contains(pointer.as_ptr() as usize, size)
        };
        if let Some(pointer) = used.filter(|&pointer| is_usable(pointer)) {
            return Ok(Arc::new(Storage::Host(pointer, size)));
        }
        // The lowest limit of the context's devices: all of them can use it.
        let fits = size as u64 <= context.device().info.max_mem_alloc_size;
        let is_written = flags.contains(MemFlags::USE_HOST_PTR) || flags.contains(MemFlags::COPY_HOST_PTR);
        let memory = fits.then(|| context.memory.allocate_object(size)).flatten().ok_or_else(|| {
            Status::MemObjectAllocationFailure.because(format!("no memory for an object of {size} bytes"))
        })?;
        if !is_written {
            Pool::clear_new(&memory);
        }
        Ok(Arc::new(match used {
            Some(pointer) => {
                context.device().scheduler.copy(memory.span(), pointer.span(size));
                Storage::Cached(memory, pointer)
            }
            None => Storage::Own(memory, written),
        }))
    }

    /// What was written of it, if that is kept.
    fn written(&self) -> Option<&Written> {
        if let Storage::Own(_, written) = self { written.as_ref() } else { None }
    }

    fn span(&self) -> Span<'_> {
        match self {
            Storage::Own(allocation, _) | Storage::Cached(allocation, _) => allocation.span(),
            Storage::Host(pointer, size) => pointer.span(*size),
        }
    }
}

impl Mem {
    /// clCreateBuffer. `host_ptr` for USE_HOST_PTR and COPY_HOST_PTR. Errors: CL_INVALID_VALUE for flags,
    /// CL_INVALID_BUFFER_SIZE, CL_INVALID_HOST_PTR, CL_MEM_OBJECT_ALLOCATION_FAILURE.
    pub fn buffer(
        context: &Arc<Context>,
        flags: MemFlags,
        size: usize,
        host_ptr: Option<HostPtr>,
    ) -> Result<Arc<Mem>> {
        let flags = flags.checked_for_creation()?;
        // "… greater than CL_DEVICE_MAX_MEM_ALLOC_SIZE for all devices in context."
        let limits = context.devices.iter().map(|device| device.info.max_mem_alloc_size);
        let limit = limits.max().unwrap_or(0);
        if size == 0 || size as u64 > limit {
            return Err(Status::InvalidBufferSize
                .because(format!("a buffer of {size} bytes; 1 to {limit} are possible")));
        }
        check_host_ptr(flags, host_ptr)?;
        // CL_INVALID_BUFFER_SIZE if CL_MEM_USE_HOST_PTR is set and host_ptr is a pointer returned by clSVMAlloc and size is greater
        // than the size passed to clSVMAlloc.
        let shared = host_ptr.filter(|_| flags.contains(MemFlags::USE_HOST_PTR));
        let room = shared.and_then(|pointer| context.svm.rest(pointer.as_ptr() as usize));
        if let Some(room) = room.filter(|&room| room < size) {
            return Err(
                Status::InvalidBufferSize.because(format!("a buffer of {size} bytes over {room} of SVM"))
            );
        }
        let storage = Storage::new(context, flags, size, host_ptr, Written::new(size))?;
        if let Some(source) = host_ptr.filter(|_| flags.contains(MemFlags::COPY_HOST_PTR)) {
            context.device().scheduler.copy(storage.span(), source.span(size));
        }
        let buffer = Mem::over(context, flags, size, MemKind::Buffer, storage);
        if flags.contains(MemFlags::COPY_HOST_PTR) {
            buffer.note_all_written();
        }
        Ok(Arc::new(buffer))
    }

    /// clCreateSubBuffer with a `cl_buffer_region`. Errors: CL_INVALID_MEM_OBJECT for a parent that is no buffer,
    /// CL_INVALID_VALUE, CL_INVALID_BUFFER_SIZE, CL_MISALIGNED_SUB_BUFFER_OFFSET.
    pub fn sub_buffer(self: &Arc<Mem>, flags: MemFlags, origin: usize, size: usize) -> Result<Arc<Mem>> {
        if !matches!(self.kind, MemKind::Buffer) {
            return Err(
                Status::InvalidMemObject.because("only a buffer that is no sub-buffer can have sub-buffers")
            );
        }
        let flags = flags.inherited_from(self.flags)?;
        if size == 0 {
            return Err(Status::InvalidBufferSize.because("a sub-buffer of 0 bytes"));
        }
        if origin.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(Status::InvalidValue
                .because(format!("a sub-buffer of bytes {origin}..+{size} in a buffer of {}", self.size)));
        }
        let align = self.context.device().info.mem_base_addr_align_bits as usize / 8;
        if !origin.is_multiple_of(align) {
            return Err(Status::MisalignedSubBufferOffset
                .because(format!("a sub-buffer's origin {origin} is no multiple of {align} bytes")));
        }
        let kind = MemKind::SubBuffer { parent: self.clone(), origin };
        Ok(Arc::new(Mem::over(&self.context, flags, size, kind, self.storage.clone())))
    }

    /// clCreateImage (and the deprecated clCreateImage2D/3D). Errors as OpenCL 1.2, 5.3.1 lists them.
    pub fn image(
        context: &Arc<Context>,
        flags: MemFlags,
        format: format::ImageFormat,
        description: &ImageDescription,
        host_ptr: Option<HostPtr>,
    ) -> Result<Arc<Mem>> {
        let flags = match &description.parent {
            Some(parent) => flags.inherited_from(parent.flags)?,
            None => flags.checked_for_creation()?,
        };
        let (info, host) = ImageInfo::new(context, format, description, host_ptr.is_some())?;
        if description.parent.is_none() {
            check_host_ptr(flags, host_ptr)?;
        } else if host_ptr.is_some() {
            return Err(
                Status::InvalidHostPtr.because("a host pointer for an image over another memory object")
            );
        }
        // With the host's pitches when its memory is the storage, else tight.
        let in_place = flags.contains(MemFlags::USE_HOST_PTR);
        let info = if in_place { info.with_pitches(host) } else { info };
        let size = info.byte_size();
        if size as u64 > context.device().info.max_mem_alloc_size {
            return Err(Status::MemObjectAllocationFailure.because(format!("an image of {size} bytes")));
        }
        let storage = match &description.parent {
            Some(parent) => parent.storage.clone(),
            None => Storage::new(context, flags, size, host_ptr, None)?,
        };
        if let Some(source) = host_ptr.filter(|_| flags.contains(MemFlags::COPY_HOST_PTR)) {
            let region = info.byte_region(info.extent());
            let from = info.host_placement(host.0, host.1, info.extent());
            let source = source.span(from.end(region).unwrap_or(0));
            rect::copy(storage.span(), info.placement([0; 3]), source, from, region);
        }
        let mut image = Mem::over(context, flags, size, MemKind::Image(info), storage);
        let no_memory = || Status::OutOfResources.because("no memory for what kernels are told of an image");
        let descriptor = image.image_info().map(|info| info.descriptor(image.address()));
        let placed = Placed::all(&context.memory, descriptor.as_slice()).ok_or_else(no_memory)?;
        image.descriptor = Some(placed);
        // What becomes of an image is not kept.
        image.note_all_written();
        Ok(Arc::new(image))
    }

    fn over(
        context: &Arc<Context>,
        flags: MemFlags,
        size: usize,
        kind: MemKind,
        storage: Arc<Storage>,
    ) -> Mem {
        let mut mem = Mem {
            context: context.clone(),
            flags,
            size,
            host_ptr: None,
            kind,
            storage,
            descriptor: None,
            maps: Mutex::default(),
            destructors: Mutex::default(),
        };
        if let Storage::Host(pointer, _) | Storage::Cached(_, pointer) = &*mem.storage {
            mem.host_ptr = Some(pointer.at(mem.storage_offset()));
        }
        mem
    }

    /// CL_MEM_ASSOCIATED_MEMOBJECT: a sub-buffer's parent, what an image was made from.
    pub fn associated(&self) -> Option<&Arc<Mem>> {
        match &self.kind {
            MemKind::Buffer | MemKind::Pipe(_) => None,
            MemKind::SubBuffer { parent, .. } => Some(parent),
            MemKind::Image(info) => info.parent.as_ref(),
        }
    }

    /// CL_MEM_OFFSET.
    pub fn offset(&self) -> usize {
        match &self.kind {
            MemKind::SubBuffer { origin, .. } => *origin,
            _ => 0,
        }
    }

    /// Where it starts in its storage: an image over a sub-buffer starts where that does.
    fn storage_offset(&self) -> usize {
        match &self.kind {
            MemKind::Image(info) => info.parent.as_ref().map_or(0, |parent| parent.storage_offset()),
            _ => self.offset(),
        }
    }

    /// Whether it is a buffer or a sub-buffer.
    pub fn is_buffer(&self) -> bool {
        matches!(self.kind, MemKind::Buffer | MemKind::SubBuffer { .. })
    }

    /// What an image is; None for everything else.
    pub fn image_info(&self) -> Option<&ImageInfo> {
        match &self.kind {
            MemKind::Image(info) => Some(info),
            _ => None,
        }
    }

    /// What a pipe is; None for everything else.
    pub fn pipe_info(&self) -> Option<PipeInfo> {
        match self.kind {
            MemKind::Pipe(info) => Some(info),
            _ => None,
        }
    }

    /// CL_MEM_MAP_COUNT.
    pub fn map_count(&self) -> u32 {
        self.maps().len() as u32
    }

    /// clSetMemObjectDestructorCallback: run when the object is deleted, last registered first.
    pub fn on_destroy(&self, callback: Box<dyn FnOnce() + Send>) {
        self.destructors.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
    }

    /// The host address of the first byte, as native kernels get it.
    pub fn address(&self) -> *mut u8 {
        self.span().address()
    }

    /// Its bytes.
    pub(crate) fn span(&self) -> Span<'_> {
        self.storage.span().slice(self.storage_offset(), self.size)
    }

    /// The address of its shadow ([`spirula_interface::check::Bounds::shadow`]), or 0.
    pub(crate) fn shadow(&self) -> u64 {
        self.storage.written().map_or(0, |written| written.address(self.storage_offset()))
    }

    /// Notes that a box of its bytes was written by the host or a command.
    pub(crate) fn note_written(&self, place: Placement, region: [usize; 3]) {
        if let Some(written) = self.storage.written() {
            written.set(self.in_storage(place), region);
        }
    }

    /// Notes that all of it was written, or may be at any time.
    pub(crate) fn note_all_written(&self) {
        let all = Placement { offset: 0, row_pitch: self.size, slice_pitch: self.size };
        self.note_written(all, [self.size, 1, 1]);
    }

    /// Notes that a box of its bytes was copied from another object's.
    pub(crate) fn note_copied(
        &self,
        place: Placement,
        source: &Mem,
        source_place: Placement,
        region: [usize; 3],
    ) {
        if let Some(written) = self.storage.written() {
            let from = source.storage.written();
            written.copy(self.in_storage(place), from, source.in_storage(source_place), region);
        }
    }

    fn in_storage(&self, place: Placement) -> Placement {
        Placement { offset: place.offset + self.storage_offset(), ..place }
    }

    /// Whether the two can have bytes in common.
    pub(crate) fn shares_storage(&self, other: &Mem) -> bool {
        self.span().overlaps(other.span())
    }

    /// The address of what a kernel's image argument points at, an [`ImageDescriptor`].
    pub(crate) fn descriptor(&self) -> Option<usize> {
        self.descriptor.as_ref().map(|descriptor| descriptor.address() as usize)
    }

    /// Its bytes as the application sees them that maps it.
    pub(crate) fn mapped_span(&self) -> Span<'_> {
        match &*self.storage {
            Storage::Cached(_, pointer) => pointer.at(self.storage_offset()).span(self.size),
            Storage::Own(..) | Storage::Host(..) => self.span(),
        }
    }

    /// Brings the application's copy of what is mapped up to date, if it has one.
    pub(crate) fn show(&self, mapped: &Mapped) {
        if let Storage::Cached(..) = &*self.storage {
            rect::copy(self.mapped_span(), mapped.place, self.span(), mapped.place, mapped.region);
        }
    }

    /// Takes in what the application wrote to its copy, if it has one.
    pub(crate) fn take_in(&self, mapped: &Mapped) {
        if let Storage::Cached(..) = &*self.storage
            && mapped.writes
        {
            rect::copy(self.span(), mapped.place, self.mapped_span(), mapped.place, mapped.region);
        }
    }

    fn maps(&self) -> MutexGuard<'_, Vec<Mapped>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a mapping.
    pub(crate) fn add_map(&self, mapped: Mapped) {
        self.maps().push(mapped);
    }

    /// Ends one mapping at `address`, if there is one.
    pub(crate) fn remove_map(&self, address: usize) -> Option<Mapped> {
        let mut maps = self.maps();
        let found = maps.iter().position(|mapped| mapped.address == address);
        found.map(|index| maps.swap_remove(index))
    }

    /// CL_INVALID_OPERATION when the host was denied what `reads` and `writes` ask.
    pub(crate) fn check_host_access(&self, reads: bool, writes: bool) -> Result<()> {
        let denied = self.flags.contains(MemFlags::HOST_NO_ACCESS)
            || reads && self.flags.contains(MemFlags::HOST_WRITE_ONLY)
            || writes && self.flags.contains(MemFlags::HOST_READ_ONLY);
        match denied {
            true => Err(Status::InvalidOperation.because("the object was created without this host access")),
            false => Ok(()),
        }
    }
}

/// CL_INVALID_HOST_PTR unless a pointer is given exactly when the flags need one.
fn check_host_ptr(flags: MemFlags, host_ptr: Option<HostPtr>) -> Result<(), Error> {
    let needed = flags.intersects(MemFlags::USE_HOST_PTR | MemFlags::COPY_HOST_PTR);
    match (needed, host_ptr.is_some()) {
        (true, false) => Err(Status::InvalidHostPtr.because("the flags need a host pointer, which is NULL")),
        (false, true) => Err(Status::InvalidHostPtr.because("a host pointer that no flag asks for")),
        _ => Ok(()),
    }
}

impl Drop for Mem {
    fn drop(&mut self) {
        let callbacks = std::mem::take(&mut *self.destructors.lock().unwrap_or_else(PoisonError::into_inner));
        callbacks.into_iter().rev().for_each(|callback| callback());
        if svm::keeps_freed()
            && let Some(Storage::Own(memory, _)) = Arc::get_mut(&mut self.storage)
            && let Some(nothing) = Allocation::new(0, 1)
        {
            self.context.svm.keep_freed(std::mem::replace(memory, nothing));
        }
    }
}

impl std::fmt::Debug for Mem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mem").field("size", &self.size).field("flags", &self.flags).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
