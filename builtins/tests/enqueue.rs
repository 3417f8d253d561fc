//! Device-side enqueue: records through queues, with several kernels and the host at once, and events by their numbers.

use spirula_builtins::enqueue::host::{Memory, OwnedEvents, OwnedQueue};
use spirula_builtins::enqueue::{KernelFacts, MARKER, Parent, Queue, SLOT_BYTES, code};
use spirula_builtins::*;
use std::ptr::NonNull;
use std::ptr::{null, null_mut, with_exposed_provenance};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Zeros on the heap.
#[derive(Debug)]
struct Zeros(Box<[AtomicU64]>);

// SAFETY: the words are handed out once.
unsafe impl Memory for Zeros {
    fn start(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }
    fn place_of(&self, address: u64, _: usize) -> Option<u64> {
        (address != FORBIDDEN).then_some(address)
    }
}

/// Where nothing is.
const FORBIDDEN: u64 = 8;

fn zeros(bytes: usize) -> Option<Box<dyn Memory>> {
    // Of pairs of words, which are aligned to 16.
    let words = std::iter::repeat_with(AtomicU64::default).take(bytes.div_ceil(16) * 2);
    Some(Box::new(Zeros(words.collect())))
}

struct Setup {
    queue: OwnedQueue,
    events: OwnedEvents,
    parent: Parent,
    _facts: Vec<KernelFacts>,
}

impl Setup {
    fn new(slots: usize, events: u32) -> Setup {
        Setup::of(slots, events, KernelFacts { max_group_size: 64, ..Default::default() })
    }

    /// With four kernels of which the same is so.
    fn of(slots: usize, events: u32, facts: KernelFacts) -> Setup {
        let queue = OwnedQueue::new(3, (slots * SLOT_BYTES) as u32, &zeros).unwrap();
        let events = OwnedEvents::new(events, &zeros).unwrap();
        let facts = vec![facts; 4];
        let parent = Parent {
            default_queue: queue.address(),
            events: events.address(),
            kernels: facts.as_ptr().expose_provenance() as u64,
            kernel_count: facts.len() as u32,
            local_memory: 1 << 16,
            ..Default::default()
        };
        Setup { queue, events, parent, _facts: facts }
    }

    fn queue(&self) -> *const Queue {
        with_exposed_provenance(self.queue.address() as usize)
    }

    fn enqueue(&self, waits: &[u64], event: *mut u64, captures: &[u8], locals: &[u64]) -> i32 {
        let range: [u64; 10] = [1, 5, 0, 0, 8, 1, 1, 4, 1, 1];
        let wait: *const u64 = if waits.is_empty() { null() } else { waits.as_ptr() };
        let captured = captures.len() as u64;
        // SAFETY: a parent whose queue and events are there, and memory as it is said to be.
        unsafe {
            spirula_enqueue_kernel(
                &self.parent,
                8,
                self.queue(),
                1,
                range.as_ptr().cast(),
                waits.len() as u32,
                wait.cast(),
                event.cast(),
                2,
                captures.as_ptr(),
                captured,
                locals.len() as u32,
                locals.as_ptr().cast(),
            )
        }
    }
}

#[test]
fn records_come_back_as_they_were_left() {
    let setup = Setup::new(64, 16);
    // SAFETY: a parent whose events are there.
    let user = unsafe { spirula_create_user_event(&setup.parent) };
    for bytes in [0, 1, 8, 130, 248, 5000] {
        let captures: Vec<u8> = (0..bytes).map(|n| n as u8 ^ 0x5a).collect();
        for (waits, locals) in [(&[][..], &[][..]), (&[user, user], &[16, 20, 30])] {
            let mut event = 0;
            assert_eq!(setup.enqueue(waits, &mut event, &captures, locals), code::SUCCESS);
            let mut children = setup.queue.children(&setup.parent);
            let child = children.pop().unwrap();
            assert!(children.is_empty() && setup.queue.children(&setup.parent).is_empty());
            assert_eq!(setup.queue.waits(&child), waits);
            let opened = setup.queue.open(child);
            assert_eq!((&opened.captures, &opened.locals[..]), (&captures, locals));
            assert_eq!((opened.head.kernel, opened.head.flags, opened.head.event), (2, 1, event));
            assert_eq!(opened.head.range.offset, [5, 0, 0]);
            assert_eq!(setup.events.status(event), Some(2), "submitted");
            setup.events.end(event, -7, 10, 20);
            assert_eq!(setup.events.status(event), Some(-7));
            setup.events.release(event);
            // SAFETY: a parent whose events are there.
            unsafe { spirula_release_event(&setup.parent, event) };
            assert_eq!(setup.events.status(event), None, "both references are gone");
            waits.iter().for_each(|&event| setup.events.release(event));
        }
    }
    assert_eq!(setup.events.status(user), Some(2));
}

#[test]
fn what_does_not_fit_leaves_nothing_behind() {
    let setup = Setup::new(10, 3);
    for _ in 0..3 {
        let mut events = Vec::new();
        for _ in 0..3 {
            let mut event = 0;
            assert_eq!(setup.enqueue(&[], &mut event, &[], &[]), code::SUCCESS);
            events.push(event);
        }
        let mut event = 0;
        assert_eq!(setup.enqueue(&[], &mut event, &[], &[]), code::EVENT_ALLOCATION_FAILURE);
        // Seven slots are left: one of 248 bytes less the head, six more of 248.
        assert_eq!(setup.enqueue(&[], null_mut(), &[0; 2000], &[]), code::DEVICE_QUEUE_FULL);
        for _ in 0..7 {
            assert_eq!(setup.enqueue(&[], null_mut(), &[0; 100], &[]), code::SUCCESS);
        }
        assert_eq!(setup.enqueue(&[], null_mut(), &[], &[]), code::DEVICE_QUEUE_FULL);
        assert_eq!(setup.enqueue(&[0], null_mut(), &[], &[]), code::INVALID_EVENT_WAIT_LIST);
        let children = setup.queue.children(&setup.parent);
        let opened: Vec<_> = children.into_iter().map(|child| setup.queue.open(child).head.event).collect();
        assert_eq!(opened[..3], events, "the oldest first");
        assert_eq!(opened.len(), 10);
        events.iter().for_each(|&event| {
            setup.events.release(event);
            setup.events.release(event);
        });
    }
    // SAFETY: a parent whose queue and events are there; no waits.
    let marker = unsafe { spirula_enqueue_marker(&setup.parent, 8, setup.queue(), 0, null(), null_mut()) };
    assert_eq!(marker, code::INVALID_EVENT_WAIT_LIST);
    let children = setup.queue.children(&setup.parent);
    assert!(children.is_empty() && MARKER > 4);
}

/// Programs with pointers of 32 bits have sizes and events as wide as those.
#[test]
fn narrow_sizes_and_events() {
    let setup = Setup::new(8, 4);
    let mut range = [0_u32; 10];
    let (offset, global, local) = ([3_u32, 4], [6_u32, 9], [2_u32, 3]);
    let sizes = [&offset, &global, &local].map(|sizes| sizes.as_ptr().cast());
    // SAFETY: room for a range, and as many sizes as there are dimensions; a parent whose queue and events are there.
    unsafe {
        spirula_ndrange(range.as_mut_ptr().cast(), 4, 2, sizes[0], sizes[1], sizes[2]);
        assert_eq!(range, [2, 3, 4, 0, 6, 9, 1, 2, 3, 1]);
        let user = [spirula_create_user_event(&setup.parent); 2].map(|event| u32::try_from(event).unwrap());
        let (mut events, locals) = ([0_u32, 0x5a5a], [16_u32, 20]);
        let code = spirula_enqueue_kernel(
            &setup.parent,
            4,
            setup.queue(),
            0,
            range.as_ptr().cast(),
            2,
            user.as_ptr().cast(),
            events.as_mut_ptr().cast(),
            1,
            null(),
            0,
            2,
            locals.as_ptr().cast(),
        );
        assert_eq!((code, events[1]), (code::SUCCESS, 0x5a5a));
        let child = setup.queue.children(&setup.parent).pop().unwrap();
        assert_eq!(setup.queue.waits(&child), user.map(u64::from));
        let opened = setup.queue.open(child);
        assert_eq!((&opened.locals[..], opened.head.event), (&[16, 20][..], u64::from(events[0])));
        assert_eq!((opened.head.range.offset, opened.head.range.local), ([3, 4, 0], [2, 3, 1]));
    }
}

/// Sub-groups of 8: a group of several rows has them where its rows are multiples of 8, or end within them.
#[test]
fn kernels_are_asked_about_sub_groups() {
    const COUNT: u32 = 2;
    const SIZE: u32 = 3;
    for rows_end_sub_groups in [0, 1] {
        let facts =
            KernelFacts { max_group_size: 64, sub_group_size: 8, rows_end_sub_groups, ..Default::default() };
        let setup = Setup::of(1, 1, facts);
        let ask = |what, local: [u64; 3]| {
            let range: [u64; 10] = [3, 0, 0, 0, 60, 60, 60, local[0], local[1], local[2]];
            // SAFETY: a parent whose kernels are there, and a range.
            unsafe { spirula_kernel_query(&setup.parent, 8, what, range.as_ptr().cast(), 3) }
        };
        let both = |local| (ask(COUNT, local), ask(SIZE, local));
        assert_eq!(both([12, 1, 1]), (2, 8), "the last one of a single row may be smaller");
        assert_eq!(both([16, 2, 1]), (4, 8));
        assert_eq!(both([12, 2, 1]), if rows_end_sub_groups == 0 { (24, 1) } else { (4, 8) });
        assert_eq!(both([0, 0, 0]), (8, 8), "the largest group, as a row");
    }
}

/// Kernels fill the queue while the host empties it: every child comes once, and whole.
#[test]
fn nothing_is_lost_between_threads() {
    const EACH: u32 = 20_000;
    const THREADS: u32 = 3;
    let setup = Setup::new(100, 8);
    let (sum, count, done) = (AtomicU64::new(0), AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let kernels: Vec<_> = (0..THREADS)
            .map(|thread| {
                let setup = &setup;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let value = u64::from(thread * EACH + number);
                        // From one slot to three.
                        let words = vec![value; 1 + (number % 50) as usize];
                        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                        while setup.enqueue(&[], null_mut(), &bytes, &[]) != code::SUCCESS {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let host = scope.spawn(|| {
            loop {
                let last = done.load(Ordering::Acquire);
                for child in setup.queue.children(&setup.parent) {
                    let captures = setup.queue.open(child).captures;
                    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
                    let first = word(&captures[..8]);
                    assert_eq!(captures.len() as u64 / 8, 1 + first % u64::from(EACH) % 50);
                    assert!(captures.chunks(8).all(|bytes| word(bytes) == first));
                    sum.fetch_add(first, Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if last {
                    return;
                }
                std::thread::yield_now();
            }
        });
        kernels.into_iter().for_each(|kernel| kernel.join().unwrap());
        done.store(true, Ordering::Release);
        host.join().unwrap();
    });
    let all = u64::from(EACH * THREADS);
    assert_eq!((u64::from(count.into_inner()), sum.into_inner()), (all, all * (all - 1) / 2));
}

#[test]
fn numbers_of_events_are_not_used_again() {
    let setup = Setup::new(1, 2);
    let parent = &setup.parent;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        // SAFETY: a parent whose events are there.
        unsafe {
            let (one, other) = (spirula_create_user_event(parent), spirula_create_user_event(parent));
            assert_eq!(spirula_create_user_event(parent), 0, "there are two");
            assert!(seen.insert(one) && seen.insert(other));
            spirula_set_user_event_status(parent, one, 1);
            assert_eq!(setup.events.status(one), Some(2), "that is no end");
            spirula_set_user_event_status(parent, one, 0);
            spirula_set_user_event_status(parent, one, -3);
            assert_eq!(setup.events.status(one), Some(0), "it ends once");
            for event in [one, other] {
                spirula_release_event(parent, event);
                assert_eq!(spirula_is_valid_event(parent, event), 0);
                spirula_release_event(parent, event);
            }
        }
    }
}

/// Kernels may write anything to a queue: the host ends, reads nothing that is not the queue's, and writes nowhere else.
#[test]
fn the_host_believes_nothing_that_kernels_wrote() {
    let setup = Setup::new(16, 16);
    // SAFETY: the queue's memory, which kernels write to as words: a header of 8, then slots of 32.
    let words = unsafe {
        let start: *const AtomicU64 = with_exposed_provenance(setup.queue.address() as usize);
        std::slice::from_raw_parts(start, 8 + 16 * 32)
    };
    for value in [0, 1, 5, 17, 1 << 32 | 3, 1 << 62, u64::MAX] {
        for newest in [1, 9, 16, 17, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
            setup.parent.children[3].store(newest, Ordering::Relaxed);
            let children = setup.queue.children(&setup.parent);
            assert!(children.len() <= 16 && setup.queue.slots() == 16);
            for child in children {
                assert!(setup.queue.waits(&child).len() <= 16 * 31);
                let opened = setup.queue.open(child);
                assert!(opened.captures.len() <= 16 * 31 * 8 && opened.locals.len() <= 16 * 31);
            }
            assert_eq!(setup.queue.room(), 16);
        }
    }
    // SAFETY: a parent whose events are there. Of an event's times the host writes none to where it must not.
    unsafe {
        let event = spirula_create_user_event(&setup.parent);
        let wanted = with_exposed_provenance::<AtomicU64>(setup.events.address() as usize + 64 + 5 * 8);
        (*wanted).store(FORBIDDEN, Ordering::Relaxed);
        setup.events.end(event, 0, 1, 2);
        assert_eq!(setup.events.status(event), Some(0));
    }
}
