//! Pipes against a model, and with several readers and writers at once.

use spirula_builtins::pipe::Pipe;
use spirula_builtins::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A pipe with its memory.
struct Memory(Vec<Line>);

/// As aligned as a pipe.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Line([u8; 128]);

// SAFETY: a pipe is made to be used by several threads at once.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(packet_size: u32, max_packets: u32) -> Memory {
        let bytes = Pipe::bytes(packet_size, max_packets).unwrap();
        let mut memory = Memory(vec![Line([0; 128]); bytes.div_ceil(128)]);
        let pipe = memory.0.as_mut_ptr().cast::<Pipe>();
        // SAFETY: inside of the memory, which is aligned as a pipe is, and zero.
        unsafe { ((*pipe).packet_size, (*pipe).max_packets) = (packet_size, max_packets) };
        memory
    }

    fn pipe(&self) -> *const Pipe {
        self.0.as_ptr().cast()
    }

    fn write(&self, mut value: u32) -> bool {
        // SAFETY: a pipe, and four bytes.
        unsafe { spirula_pipe_write(self.pipe(), (&raw mut value).cast(), 4) == 0 }
    }

    fn read(&self) -> Option<u32> {
        let mut value = 0_u32;
        // SAFETY: a pipe, and four bytes.
        let result = unsafe { spirula_pipe_read(self.pipe(), (&raw mut value).cast(), 4) };
        (result == 0).then_some(value)
    }

    fn reserve(&self, write: bool, count: u32) -> u64 {
        // SAFETY: a pipe.
        unsafe {
            match write {
                true => spirula_pipe_reserve_write(self.pipe(), count),
                false => spirula_pipe_reserve_read(self.pipe(), count),
            }
        }
    }

    fn put(&self, reservation: u64, index: u32, mut value: u32) -> bool {
        // SAFETY: a pipe, and four bytes.
        unsafe {
            spirula_pipe_write_reserved(self.pipe(), reservation, index, (&raw mut value).cast(), 4) == 0
        }
    }

    fn get(&self, reservation: u64, index: u32) -> Option<u32> {
        let mut value = 0_u32;
        // SAFETY: a pipe, and four bytes.
        let result = unsafe {
            spirula_pipe_read_reserved(self.pipe(), reservation, index, (&raw mut value).cast(), 4)
        };
        (result == 0).then_some(value)
    }

    fn commit(&self, write: bool, reservation: u64) {
        // SAFETY: a pipe, and a reservation that was not committed.
        unsafe {
            match write {
                true => spirula_pipe_commit_write(self.pipe(), reservation),
                false => spirula_pipe_commit_read(self.pipe(), reservation),
            }
        }
    }

    fn packets(&self) -> u32 {
        // SAFETY: a pipe.
        unsafe { spirula_pipe_num_packets(self.pipe()) }
    }
}

/// A few thousand operations, each of which a queue would answer in the same way.
#[test]
fn one_thread_sees_a_bounded_queue() {
    for max in [1, 2, 3, 7, 16] {
        let memory = Memory::new(4, max);
        let mut model = VecDeque::new();
        let mut random = 12345_u32;
        for value in 0..5000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = (random >> 8) % (max + 2);
            match random >> 30 {
                0 => {
                    let fits = model.len() < max as usize;
                    assert_eq!(memory.write(value), fits);
                    if fits {
                        model.push_back(value);
                    }
                }
                1 => assert_eq!(memory.read(), model.pop_front()),
                2 => {
                    let reservation = memory.reserve(true, count);
                    let fits = count > 0 && model.len() + count as usize <= max as usize;
                    assert_eq!(spirula_is_valid_reserve_id(reservation), fits);
                    assert!(!memory.put(reservation, if fits { count } else { 0 }, 1), "beyond its end");
                    for index in (0..count).rev().filter(|_| fits) {
                        assert!(memory.put(reservation, index, value + index));
                    }
                    assert_eq!(memory.packets() as usize, model.len(), "nothing is committed");
                    memory.commit(true, reservation);
                    model.extend((0..count).filter(|_| fits).map(|index| value + index));
                }
                _ => {
                    let reservation = memory.reserve(false, count);
                    let fits = count > 0 && model.len() >= count as usize;
                    assert_eq!(spirula_is_valid_reserve_id(reservation), fits);
                    for index in (0..count).filter(|_| fits) {
                        assert_eq!(memory.get(reservation, index), model.pop_front());
                    }
                    memory.commit(false, reservation);
                }
            }
            assert_eq!(memory.packets() as usize, model.len());
        }
    }
}

/// What is reserved and not committed is neither read nor written over, and keeps its place.
#[test]
fn uncommitted_packets_keep_their_place() {
    let memory = Memory::new(4, 4);
    let first = memory.reserve(true, 2);
    assert!(memory.write(3) && memory.write(4) && !memory.write(5), "the pipe is full");
    assert_eq!(memory.read(), None, "the first two come first");
    assert!(memory.put(first, 0, 1) && memory.put(first, 1, 2));
    memory.commit(true, first);
    let taken = memory.reserve(false, 2);
    assert_eq!((memory.read(), memory.read()), (Some(3), Some(4)));
    assert!(!memory.write(5), "the places of the first two are next, and still being read");
    assert_eq!((memory.get(taken, 1), memory.get(taken, 0)), (Some(2), Some(1)));
    memory.commit(false, taken);
    assert!(memory.write(5) && memory.write(6));
    assert_eq!((memory.read(), memory.read(), memory.read()), (Some(5), Some(6), None));
}

/// Several writers and readers, with and without reservations: each packet arrives once, each writer's in their order.
#[test]
fn nothing_is_lost_between_threads() {
    const WRITERS: u32 = 3;
    const READERS: usize = 3;
    const EACH: u32 = 20_000;
    for max in [1, 2, 5, 64] {
        let memory = Memory::new(4, max);
        let (sum, count) = (AtomicU64::new(0), AtomicUsize::new(0));
        let all = (WRITERS * EACH) as usize;
        let write = |writer: u32| {
            let mut next = 0;
            while next < EACH {
                let wanted = (next % 3 + 1).min(EACH - next).min(max);
                let reservation = memory.reserve(true, wanted);
                if spirula_is_valid_reserve_id(reservation) {
                    (0..wanted)
                        .for_each(|i| assert!(memory.put(reservation, i, (writer << 24) | (next + i))));
                    memory.commit(true, reservation);
                    next += wanted;
                } else if memory.write((writer << 24) | next) {
                    next += 1;
                } else {
                    std::thread::yield_now();
                }
            }
        };
        let read = || {
            let mut last = [None; WRITERS as usize];
            let mut seen = |value: u32| {
                let (writer, number) = ((value >> 24) as usize, value & 0xff_ffff);
                assert!(last[writer] < Some(number), "{number} of {writer} came behind {:?}", last[writer]);
                last[writer] = Some(number);
                sum.fetch_add(number.into(), Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
            };
            while count.load(Ordering::Relaxed) < all {
                let reservation = memory.reserve(false, 2);
                if spirula_is_valid_reserve_id(reservation) {
                    (0..2).for_each(|i| seen(memory.get(reservation, i).unwrap()));
                    memory.commit(false, reservation);
                } else if let Some(value) = memory.read() {
                    seen(value);
                } else {
                    std::thread::yield_now();
                }
            }
        };
        std::thread::scope(|scope| {
            (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(writer))));
            (0..READERS).for_each(|_| drop(scope.spawn(read)));
        });
        let each = u64::from(EACH) * u64::from(EACH - 1) / 2;
        assert_eq!(sum.into_inner(), u64::from(WRITERS) * each, "{max}");
        assert_eq!((count.into_inner(), memory.packets(), memory.read()), (all, 0, None));
    }
}
