//! Device-side enqueue: the functions that generated code calls.

use super::*;

/// A parent whose events and queues are there.
///
/// # Safety
/// `parent` must be a launch's, and the launch must not have ended.
#[inline(always)]
unsafe fn events<'a>(parent: *const Parent) -> (&'a Events, Words<'a>) {
    // SAFETY: the caller's promise.
    unsafe {
        let events: *const Events = std::ptr::with_exposed_provenance((*parent).events as usize);
        (&*events, (*events).words())
    }
}

/// Numbers as wide as the program's pointers: sizes, or events.
#[derive(Clone, Copy)]
struct Numbers {
    start: *mut u8,
    /// Bytes of each: 4 or 8.
    width: u32,
}

impl Numbers {
    fn at(start: *const u8, width: u32) -> Numbers {
        Numbers { start: start.cast_mut(), width }
    }

    /// # Safety
    /// There must be one of that index.
    #[inline(always)]
    unsafe fn get(self, index: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self.width {
                4 => u64::from(self.start.cast::<u32>().wrapping_add(index).read()),
                _ => self.start.cast::<u64>().wrapping_add(index).read(),
            }
        }
    }

    /// # Safety
    /// There must be room for one of that index.
    #[inline(always)]
    unsafe fn put(self, index: usize, number: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.width {
                4 => self.start.cast::<u32>().wrapping_add(index).write(number as u32),
                _ => self.start.cast::<u64>().wrapping_add(index).write(number),
            }
        }
    }
}

/// The `ndrange_t` of a program with sizes of that width.
///
/// # Safety
/// It must be there.
#[inline(always)]
unsafe fn read_range(range: *const u8, width: u32) -> NdRange {
    let sizes = Numbers::at(range.wrapping_add(width as usize), width);
    // SAFETY: the caller's promise: the sizes follow the number of dimensions.
    unsafe {
        let three = |first: usize| [sizes.get(first), sizes.get(first + 1), sizes.get(first + 2)];
        NdRange { work_dim: range.cast::<u32>().read(), offset: three(0), global: three(3), local: three(6) }
    }
}

/// What a kernel is enqueued with.
struct Request<'a> {
    head: Head,
    waits: Numbers,
    locals: Numbers,
    captures: *const u8,
    facts: Option<&'a KernelFacts>,
}

/// Enqueues a kernel or a marker; its event goes to `event` unless that is null.
///
/// # Safety
/// All addresses must be what `enqueue_kernel` says; `parent` a launch's, and `queue` one of its context, or null.
unsafe fn enqueue(parent: &Parent, queue: *const Queue, request: Request, event: Numbers) -> i32 {
    let Request { mut head, waits, locals, captures, facts } = request;
    // SAFETY: the caller's promises.
    unsafe {
        if queue.is_null() {
            return code::INVALID_QUEUE;
        }
        if let Some(facts) = facts {
            if head.flags > 2 {
                return code::ENQUEUE_FAILURE;
            }
            if !head.range.is_valid(facts, event.width) {
                return code::INVALID_NDRANGE;
            }
            let sizes = (0..head.locals as usize).map(|index| locals.get(index));
            let checked = facts.check_locals(sizes, parent.local_memory);
            if checked != code::SUCCESS {
                return checked;
            }
        }
        if (head.waits == 0) != waits.start.is_null() {
            return code::INVALID_EVENT_WAIT_LIST;
        }
        let (events, event_words) = events(parent);
        for index in 0..head.waits as usize {
            if !events.retain(event_words, waits.get(index)) {
                (0..index).for_each(|index| events.release(event_words, waits.get(index)));
                return code::INVALID_EVENT_WAIT_LIST;
            }
        }
        let release = || {
            let waited = 0..head.waits as usize;
            waited.for_each(|index| events.release(event_words, waits.get(index)));
        };
        let queue = &*queue;
        let words = queue.words();
        let count = HEAD_WORDS + payload_words(head.waits, head.locals, head.captured);
        let Some(slot) = queue.take(words, count) else {
            release();
            return code::DEVICE_QUEUE_FULL;
        };
        if !event.start.is_null() {
            // One reference is the kernel's, one the record's.
            let Some(new) = events.create(event_words, 2, false) else {
                release();
                queue.give_back(words, slot);
                return code::EVENT_ALLOCATION_FAILURE;
            };
            head.event = new;
            event.put(0, new);
        }
        write(words, slot, &Request { head, waits, locals, captures, facts });
        push(parent, queue, words, slot);
    }
    code::SUCCESS
}

/// Fills a record. Its first word, the link of the parent's list, is left out.
///
/// # Safety
/// The request's addresses must be of as much as it says.
unsafe fn write(words: Words, slot: u32, request: &Request) {
    let mut record = Record::new(words, slot);
    record.put(0);
    record.put_head(&request.head);
    // SAFETY: the caller's promise.
    unsafe {
        (0..request.head.waits as usize).for_each(|index| record.put(request.waits.get(index)));
        (0..request.head.locals as usize).for_each(|index| record.put(request.locals.get(index)));
        let captured = request.head.captured as usize;
        for index in 0..captured.div_ceil(8) {
            let (from, mut word) = (request.captures.wrapping_add(8 * index), 0_u64);
            let bytes = if captured - 8 * index < 8 { captured - 8 * index } else { 8 };
            std::ptr::copy_nonoverlapping(from, (&raw mut word).cast(), bytes);
            record.put(word);
        }
    }
}

/// Makes a record the parent's.
fn push(parent: &Parent, queue: &Queue, words: Words, slot: u32) {
    let link = words.word(slot as usize * SLOT_WORDS + 1);
    let Some(list) = parent.children.get(queue.number as usize) else { return };
    let mut newest = list.load(Relaxed);
    loop {
        link.store(newest, Relaxed);
        match list.compare_exchange_weak(newest, u64::from(slot) + 1, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => newest = now,
        }
    }
}

/// The facts of a kernel, if there is one of that number.
///
/// # Safety
/// `parent` must be a launch's.
unsafe fn facts(parent: &Parent, kernel: u32) -> Option<&KernelFacts> {
    let kernels: *const KernelFacts = std::ptr::with_exposed_provenance(parent.kernels as usize);
    // SAFETY: the caller's promise; one of as many as there are.
    (kernel < parent.kernel_count).then(|| unsafe { &*kernels.wrapping_add(kernel as usize) })
}

/// enqueue_kernel, whose block captured `captured` bytes and becomes kernel `kernel`. Sizes and events are `width` bytes wide.
///
/// # Safety
/// The addresses must be as `enqueue_kernel` says, and `parent` the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn spirula_enqueue_kernel(
    parent: *const Parent,
    width: u32,
    queue: *const Queue,
    flags: u32,
    range: *const u8,
    waits_count: u32,
    waits: *const u8,
    event: *mut u8,
    kernel: u32,
    captures: *const u8,
    captured: u64,
    locals_count: u32,
    locals: *const u8,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(facts) = facts(&*parent, kernel) else { return code::ENQUEUE_FAILURE };
        let (range, captured) = (read_range(range, width), captured as u32);
        let head =
            Head { kernel, flags, range, event: 0, waits: waits_count, locals: locals_count, captured };
        let [waits, locals, event] =
            [waits, locals, event.cast_const()].map(|start| Numbers::at(start, width));
        enqueue(&*parent, queue, Request { head, waits, locals, captures, facts: Some(facts) }, event)
    }
}

/// enqueue_marker.
///
/// # Safety
/// As for [`spirula_enqueue_kernel`].
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_enqueue_marker(
    parent: *const Parent,
    width: u32,
    queue: *const Queue,
    waits_count: u32,
    waits: *const u8,
    event: *mut u8,
) -> i32 {
    if waits_count == 0 {
        return code::INVALID_EVENT_WAIT_LIST;
    }
    let head = Head { kernel: MARKER, waits: waits_count, ..Head::default() };
    let nothing: *const u8 = std::ptr::null();
    let [waits, locals, event] = [waits, nothing, event.cast_const()].map(|start| Numbers::at(start, width));
    // SAFETY: the caller's promises.
    unsafe {
        let request = Request { head, waits, locals, captures: nothing, facts: None };
        enqueue(&*parent, queue, request, event)
    }
}

/// get_default_queue.
///
/// # Safety
/// `parent` must be the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_default_queue(parent: *const Parent) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (*parent).default_queue }
}

/// create_user_event; 0 if there are too many.
///
/// # Safety
/// `parent` must be the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_create_user_event(parent: *const Parent) -> u64 {
    // SAFETY: the caller's promise.
    let (events, words) = unsafe { events(parent) };
    events.create(words, 1, true).unwrap_or(0)
}

/// is_valid_event.
///
/// # Safety
/// `parent` must be the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_is_valid_event(parent: *const Parent, event: u64) -> u32 {
    // SAFETY: the caller's promise.
    let (events, words) = unsafe { events(parent) };
    events.live(words, event).is_some().into()
}

/// retain_event.
///
/// # Safety
/// `parent` must be the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_retain_event(parent: *const Parent, event: u64) {
    // SAFETY: the caller's promise.
    let (events, words) = unsafe { events(parent) };
    events.retain(words, event);
}

/// release_event.
///
/// # Safety
/// `parent` must be the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_release_event(parent: *const Parent, event: u64) {
    // SAFETY: the caller's promise.
    let (events, words) = unsafe { events(parent) };
    events.release(words, event);
}

/// set_user_event_status: CL_COMPLETE or an error, once.
///
/// # Safety
/// `parent` must be the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_set_user_event_status(parent: *const Parent, event: u64, status: i32) {
    // SAFETY: the caller's promise.
    let (events, words) = unsafe { events(parent) };
    let is_users = events.live(words, event).is_some_and(|place| place[IS_USERS].load(Relaxed) != 0);
    if is_users && status <= COMPLETE {
        events.end(words, event, status);
    }
}

/// capture_event_profiling_info: the two times, when the event's kernel has ended.
///
/// # Safety
/// `parent` must be the launch's, and `times` have room for two numbers until then.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_capture_times(parent: *const Parent, event: u64, times: *mut u64) {
    // SAFETY: the caller's promise.
    let (events, words) = unsafe { events(parent) };
    if let Some(place) = events.live(words, event) {
        // Either this sees that the event has ended, or who ends it sees that the times are wanted.
        place[WANTED].swap(times.expose_provenance() as u64, SeqCst);
        tell_times(place, Some);
    }
}

/// ndrange_1D to _3D, of sizes that are `width` bytes wide; addresses that are null stand for what was not given.
///
/// # Safety
/// `range` must have room for one, and the addresses be of as many sizes as there are dimensions.
#[inline(always)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_ndrange(
    range: *mut u8,
    width: u32,
    work_dim: u32,
    offset: *const u8,
    global: *const u8,
    local: *const u8,
) {
    // SAFETY: the caller's promises.
    let sizes = |from: *const u8, missing: [u64; 2]| unsafe {
        if from.is_null() {
            return [missing[0]; 3];
        }
        let from = Numbers::at(from, width);
        let size = |axis: u32| if axis < work_dim { from.get(axis as usize) } else { missing[1] };
        [size(0), size(1), size(2)]
    };
    let all = [sizes(offset, [0, 0]), sizes(global, [1, 1]), sizes(local, [0, 1])];
    let places = Numbers { start: range.wrapping_add(width as usize), width };
    // SAFETY: the caller's promise.
    unsafe {
        range.cast::<u32>().write(work_dim);
        for (index, size) in all.into_iter().flatten().enumerate() {
            places.put(index, size);
        }
    }
}

/// What can be asked of a kernel, by number.
pub mod query {
    #![allow(missing_docs)]
    pub const WORK_GROUP_SIZE: u32 = 0;
    pub const PREFERRED_MULTIPLE: u32 = 1;
    pub const SUB_GROUP_COUNT: u32 = 2;
    pub const MAX_SUB_GROUP_SIZE: u32 = 3;
}

/// get_kernel_*: `what` of a kernel, of which two depend on a range.
///
/// # Safety
/// `parent` must be the launch's, and `range` one or null.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_kernel_query(
    parent: *const Parent,
    width: u32,
    what: u32,
    range: *const u8,
    kernel: u32,
) -> u32 {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(facts) = facts(&*parent, kernel) else { return 0 };
        match what {
            query::WORK_GROUP_SIZE => facts.max_group_size,
            query::PREFERRED_MULTIPLE => facts.preferred_multiple,
            _ if range.is_null() => 0,
            _ => {
                // Without a local size the largest group, as a row, is meant.
                let (lanes, most) = (u64::from(facts.sub_group_size).max(1), u64::from(facts.max_group_size));
                let local = read_range(range, width).local;
                let [x, y, z] = if local[0] == 0 { [most, 1, 1] } else { local };
                let rows = y.saturating_mul(z);
                let is_whole = x.is_multiple_of(lanes) || rows == 1 || facts.rows_end_sub_groups != 0;
                let size = if is_whole { lanes } else { 1 };
                let answer = match what {
                    query::SUB_GROUP_COUNT => x.div_ceil(size).saturating_mul(rows),
                    _ => size,
                };
                if answer > u64::from(u32::MAX) { u32::MAX } else { answer as u32 }
            }
        }
    }
}
