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

/// What a kernel is enqueued with.
struct Request<'a> {
    head: Head,
    waits: *const u64,
    locals: *const u64,
    captures: *const u8,
    facts: Option<&'a KernelFacts>,
}

/// Whether a kernel can run in such a range.
fn range_is_valid(range: &NdRange, facts: &KernelFacts) -> bool {
    let NdRange { work_dim, offset, global, local } = *range;
    if !(1..=3).contains(&work_dim) {
        return false;
    }
    let given = local[0] | local[1] | local[2] != 0;
    let (mut all, mut items) = (1_u64, 1_u64);
    for axis in [0, 1, 2] {
        let (Some(product), Some(_)) =
            (all.checked_mul(global[axis]), offset[axis].checked_add(global[axis]))
        else {
            return false;
        };
        all = product;
        if given {
            let uniform = local[axis] != 0 && global[axis].checked_rem(local[axis]) == Some(0);
            let fits = uniform || local[axis] != 0 && facts.remainder_groups != 0;
            items = items.saturating_mul(local[axis]);
            if !fits {
                return false;
            }
        }
    }
    items <= u64::from(facts.max_group_size)
}

/// Why the sizes of local memory are none; [`code::SUCCESS`] if they are.
///
/// # Safety
/// There must be as many sizes as the request says.
unsafe fn check_locals(parent: &Parent, request: &Request, facts: &KernelFacts) -> i32 {
    let mut bytes = u64::from(facts.static_local_size);
    for index in 0..request.head.locals as usize {
        // SAFETY: the caller's promise.
        let size = unsafe { *request.locals.wrapping_add(index) };
        if size == 0 {
            return code::INVALID_ARG_SIZE;
        }
        // As the host aligns it.
        bytes = bytes.saturating_add(127) / 128 * 128;
        bytes = bytes.saturating_add(size);
    }
    if bytes > parent.local_memory { code::OUT_OF_RESOURCES } else { code::SUCCESS }
}

/// Enqueues a kernel or a marker; its event goes to `event` unless that is null.
///
/// # Safety
/// All addresses must be what `enqueue_kernel` says; `parent` a launch's, and `queue` one of its context, or null.
unsafe fn enqueue(parent: &Parent, queue: *const Queue, request: Request, event: *mut u64) -> i32 {
    let Request { mut head, waits, locals, captures, facts } = request;
    // SAFETY: the caller's promises.
    unsafe {
        if queue.is_null() {
            return code::INVALID_QUEUE;
        }
        if let Some(facts) = facts {
            let request = Request { head: head.clone(), waits, locals, captures, facts: None };
            if head.flags > 2 {
                return code::ENQUEUE_FAILURE;
            }
            if !range_is_valid(&head.range, facts) {
                return code::INVALID_NDRANGE;
            }
            let locals = check_locals(parent, &request, facts);
            if locals != code::SUCCESS {
                return locals;
            }
        }
        if (head.waits == 0) != waits.is_null() {
            return code::INVALID_EVENT_WAIT_LIST;
        }
        let (events, event_words) = events(parent);
        for index in 0..head.waits as usize {
            if !events.retain(event_words, *waits.wrapping_add(index)) {
                (0..index).for_each(|index| events.release(event_words, *waits.wrapping_add(index)));
                return code::INVALID_EVENT_WAIT_LIST;
            }
        }
        let release = || {
            let waited = 0..head.waits as usize;
            waited.for_each(|index| events.release(event_words, *waits.wrapping_add(index)));
        };
        let queue = &*queue;
        let words = queue.words();
        let count = HEAD_WORDS + payload_words(head.waits, head.locals, head.captured);
        let Some(slot) = queue.take(words, count) else {
            release();
            return code::DEVICE_QUEUE_FULL;
        };
        if !event.is_null() {
            // One reference is the kernel's, one the record's.
            let Some(new) = events.create(event_words, 2, false) else {
                release();
                queue.give_back(words, slot);
                return code::EVENT_ALLOCATION_FAILURE;
            };
            head.event = new;
            *event = new;
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
        (0..request.head.waits as usize).for_each(|index| record.put(*request.waits.wrapping_add(index)));
        (0..request.head.locals as usize).for_each(|index| record.put(*request.locals.wrapping_add(index)));
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

/// enqueue_kernel, whose block captured `captured` bytes and becomes kernel `kernel`.
///
/// # Safety
/// The addresses must be as `enqueue_kernel` says, and `parent` the launch's.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn spirula_enqueue_kernel(
    parent: *const Parent,
    queue: *const Queue,
    flags: u32,
    range: *const NdRange,
    waits_count: u32,
    waits: *const u64,
    event: *mut u64,
    kernel: u32,
    captures: *const u8,
    captured: u64,
    locals_count: u32,
    locals: *const u64,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        let Some(facts) = facts(&*parent, kernel) else { return code::ENQUEUE_FAILURE };
        let (range, captured) = (*range, captured as u32);
        let head =
            Head { kernel, flags, range, event: 0, waits: waits_count, locals: locals_count, captured };
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
    queue: *const Queue,
    waits_count: u32,
    waits: *const u64,
    event: *mut u64,
) -> i32 {
    if waits_count == 0 {
        return code::INVALID_EVENT_WAIT_LIST;
    }
    let head = Head { kernel: MARKER, waits: waits_count, ..Head::default() };
    let nothing = std::ptr::null();
    // SAFETY: the caller's promises.
    unsafe {
        let request = Request { head, waits, locals: nothing, captures: nothing.cast(), facts: None };
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
        tell_times(place, |_| true);
    }
}

/// ndrange_1D to _3D; addresses that are null stand for what was not given.
///
/// # Safety
/// `range` must have room for one, and the addresses be of as many sizes as there are dimensions.
#[inline(always)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_ndrange(
    range: *mut NdRange,
    work_dim: u32,
    offset: *const u64,
    global: *const u64,
    local: *const u64,
) {
    // SAFETY: the caller's promises.
    let sizes = |from: *const u64, missing: [u64; 2]| unsafe {
        if from.is_null() {
            return [missing[0]; 3];
        }
        let size = |axis: u32| if axis < work_dim { *from.wrapping_add(axis as usize) } else { missing[1] };
        [size(0), size(1), size(2)]
    };
    let (offset, global, local) = (sizes(offset, [0, 0]), sizes(global, [1, 1]), sizes(local, [0, 1]));
    // SAFETY: the caller's promise.
    unsafe { range.write(NdRange { work_dim, offset, global, local }) }
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
    what: u32,
    range: *const NdRange,
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
                let [x, y, z] = if (*range).local[0] == 0 { [most, 1, 1] } else { (*range).local };
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
