//! Pipes (OpenCL C 2.0, 6.13.16): a ring of packets between kernels, which may run at the same time.
//!
//! After D. Vyukov's bounded queue: two counters say how many packets were ever taken for writing and for reading, and each
//! place of the ring has a state, which is `2 * lap` while it is free for that lap of the ring and one more while it holds
//! that lap's packet. A reservation of n packets looks at n places from the counter on. If all are in the state that it
//! needs, it moves the counter over them by one compare-and-exchange: none of these states can have changed before, for a
//! place goes on only by the hand of whom the counter passed. If one is not, and the counter stands where it did, the pipe is
//! full (or empty), and the reservation fails. Nobody waits for anybody: an exchange fails only because another reservation
//! was made. Committing adds one to each place's state, from where on the other side has it. A read or write without
//! a reservation is one of a single packet, committed at once.
//!
//! Packets are read in the order in which their places were reserved. A place that is reserved and not committed holds up
//! who wants to read it, who gets told that the pipe is empty.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a kernel's pipe argument points at. Behind it lie the states of the places, and then the packets.
/// All counters and states begin as zero.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Pipe {
    /// Bytes of a packet.
    pub packet_size: u32,
    /// Places in the ring; at least 1.
    pub max_packets: u32,
    written: Counter,
    read: Counter,
    committed: Counter,
}

/// In a cache line of its own: readers and writers each move theirs.
#[repr(C, align(128))]
#[derive(Debug)]
struct Counter(AtomicU64);

/// What packets are aligned to: more than any type of OpenCL C.
const ALIGN: usize = align_of::<Pipe>();

/// So many places are possible: a reservation's number has 32 bits, as pointers may have, in whose place it goes, and is not all ones.
pub const MAX_PACKETS: u32 = i32::MAX as u32;

/// The number that stands for no reservation: SPIR 2.0's null. Today's clang's has all bits set.
const INVALID: u64 = 0;

/// What the functions return if there is no room, or no packet.
const FAILED: i32 = -1;

/// A reservation: the first place, and how many. Its number is one more than the first place's, which says how many there are: a
/// place is in one reservation at a time.
#[derive(Clone, Copy)]
struct Reservation {
    first: u32,
    count: u32,
}

impl Reservation {
    fn number(self) -> u64 {
        u64::from(self.first) + 1
    }
}

/// What is known of a place.
#[repr(C)]
struct Place {
    state: AtomicU32,
    /// Of the reservation that begins here.
    count: AtomicU32,
}

/// Who takes packets from a counter on.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Write,
    Read,
}

impl Pipe {
    /// Bytes that a pipe takes in all; None if there are too many.
    pub fn bytes(packet_size: u32, max_packets: u32) -> Option<usize> {
        let data = (packet_size as usize).checked_mul(max_packets as usize)?;
        Pipe::header_bytes(max_packets).checked_add(data)
    }

    /// Bytes in front of the packets. They must be zero at first, but for the two sizes.
    pub fn header_bytes(max_packets: u32) -> usize {
        (size_of::<Pipe>() + size_of::<Place>() * max_packets as usize).next_multiple_of(ALIGN)
    }

    /// What is known of a place.
    ///
    /// # Safety
    /// The pipe must have its places behind it.
    #[inline(always)]
    unsafe fn known(&self, place: u32) -> &Place {
        let places = (&raw const *self).wrapping_add(1).cast::<Place>();
        // SAFETY: the caller's promise; the number is reduced to one of a place.
        unsafe { &*places.wrapping_add(place as usize) }
    }

    /// The same of its state.
    ///
    /// # Safety
    /// As for [`Pipe::known`].
    #[inline(always)]
    unsafe fn state(&self, place: u32) -> &AtomicU32 {
        // SAFETY: the caller's promise.
        unsafe { &self.known(place).state }
    }

    /// The reservation of that number; None if it is none.
    ///
    /// # Safety
    /// As for [`Pipe::known`].
    unsafe fn reservation(&self, number: u64) -> Option<Reservation> {
        // As wide as the pointer that it may have been.
        let first = (number as u32).wrapping_sub(1);
        if first >= self.max_packets {
            return None;
        }
        // SAFETY: the caller's promise; a place of the ring.
        let count = unsafe { self.known(first) }.count.load(Relaxed);
        Some(Reservation { first, count })
    }

    /// Where a place's packet lies.
    fn packet(&self, place: u32) -> *mut u8 {
        let offset = place as usize * self.packet_size as usize;
        (&raw const *self).cast_mut().cast::<u8>().wrapping_add(Pipe::header_bytes(self.max_packets) + offset)
    }

    fn counter(&self, side: Side) -> &AtomicU64 {
        match side {
            Side::Write => &self.written.0,
            Side::Read => &self.read.0,
        }
    }

    /// Whether `count` places from `position` on are in the state that this side needs.
    ///
    /// # Safety
    /// As for [`Pipe::known`].
    unsafe fn are_ready(&self, side: Side, position: u64, count: u32) -> bool {
        let max = u64::from(self.max_packets.max(1));
        let (mut place, mut lap) = ((position % max) as u32, (position / max) as u32);
        let offset = if side == Side::Read { 1 } else { 0 };
        for _ in 0..count {
            // Acquire: who took the packet out, or put it in, has done so.
            // SAFETY: the caller's promise; a place of the ring.
            let state = unsafe { self.state(place) }.load(Acquire);
            if state != lap.wrapping_mul(2).wrapping_add(offset) {
                return false;
            }
            place += 1;
            if place == self.max_packets {
                (place, lap) = (0, lap.wrapping_add(1));
            }
        }
        true
    }

    /// Takes `count` packets for one side; None if there are not as many.
    ///
    /// # Safety
    /// As for [`Pipe::known`].
    unsafe fn reserve(&self, side: Side, count: u32) -> Option<Reservation> {
        if count == 0 || count > self.max_packets {
            return None;
        }
        let counter = self.counter(side);
        let mut position = counter.load(Relaxed);
        loop {
            // SAFETY: the caller's promise.
            if !unsafe { self.are_ready(side, position, count) } {
                let now = counter.load(Relaxed);
                if now == position {
                    return None;
                }
                position = now;
                continue;
            }
            match counter.compare_exchange_weak(position, position + u64::from(count), AcqRel, Relaxed) {
                Ok(_) => {
                    let first = (position % u64::from(self.max_packets.max(1))) as u32;
                    // SAFETY: the caller's promise; a place of the ring.
                    unsafe { self.known(first) }.count.store(count, Relaxed);
                    return Some(Reservation { first, count });
                }
                Err(now) => position = now,
            }
        }
    }

    /// The place of packet `index` of a reservation; None if it has none of that number.
    fn place(&self, reservation: Reservation, index: u32) -> Option<u32> {
        if index >= reservation.count || reservation.first >= self.max_packets {
            return None;
        }
        let place = u64::from(reservation.first) + u64::from(index);
        Some((place % u64::from(self.max_packets.max(1))) as u32)
    }

    /// Gives the packets of a reservation to the other side.
    ///
    /// # Safety
    /// As for [`Pipe::known`].
    unsafe fn commit(&self, side: Side, reservation: Reservation) {
        if side == Side::Write {
            self.committed.0.fetch_add(reservation.count.into(), Relaxed);
        }
        for index in 0..reservation.count.min(self.max_packets) {
            let Some(place) = self.place(reservation, index) else { return };
            // SAFETY: the caller's promise; a place of the ring.
            let state = unsafe { self.state(place) };
            // Nobody else changes the state of a place that is reserved.
            state.store(state.load(Relaxed).wrapping_add(1), Release);
        }
    }

    /// Copies a packet between its place and a kernel's memory.
    ///
    /// # Safety
    /// As for [`Pipe::known`]; and `memory` must hold `size` bytes.
    #[inline(always)]
    unsafe fn copy(&self, side: Side, place: u32, memory: *mut u8, size: u32) {
        let size = size.min(self.packet_size) as usize;
        let packet = self.packet(place);
        // SAFETY: the caller's promises; a packet has at least that size, and is reserved by who copies it.
        unsafe {
            match side {
                Side::Write => std::ptr::copy_nonoverlapping(memory, packet, size),
                Side::Read => std::ptr::copy_nonoverlapping(packet, memory, size),
            }
        }
    }

    /// Reads or writes one packet.
    ///
    /// # Safety
    /// As for [`Pipe::copy`].
    #[inline(always)]
    unsafe fn transfer(&self, side: Side, memory: *mut u8, size: u32) -> i32 {
        // SAFETY: the caller's promises; the place is reserved.
        unsafe {
            let Some(reservation) = self.reserve(side, 1) else { return FAILED };
            self.copy(side, reservation.first, memory, size);
            self.commit(side, reservation);
        }
        0
    }

    /// Packets that can be read: committed, and not taken for reading.
    fn packets(&self) -> u32 {
        let read = self.read.0.load(Relaxed);
        let packets = self.committed.0.load(Relaxed).saturating_sub(read);
        packets.min(self.max_packets.into()) as u32
    }
}

/// The functions of one side.
macro_rules! sides {
    ($($side:ident: $plain:ident, $reserve:ident, $reserved:ident, $commit:ident;)*) => {$(
        /// Moves one packet of `size` bytes between `memory` and the pipe; 0, or negative if it is full or empty.
        ///
        /// # Safety
        /// `pipe` must be one with its places and packets behind it, and `memory` hold `size` bytes.
        #[inline(never)]
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
        pub unsafe extern "C" fn $plain(pipe: *const Pipe, memory: *mut u8, size: u32) -> i32 {
            // SAFETY: the caller's promises.
            unsafe { (*pipe).transfer(Side::$side, memory, size) }
        }

        /// Reserves packets; the reservation's number, or 0.
        ///
        /// # Safety
        /// `pipe` must be one with its places and packets behind it.
        #[inline(never)]
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
        pub unsafe extern "C" fn $reserve(pipe: *const Pipe, count: u32) -> u64 {
            // SAFETY: the caller's promise.
            let reservation = unsafe { (*pipe).reserve(Side::$side, count) };
            reservation.map_or(INVALID, Reservation::number)
        }

        /// Moves packet `index` of a reservation; 0, or negative if it has none of that number.
        ///
        /// # Safety
        /// As for one packet; and the reservation must not have been committed.
        #[inline(never)]
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
        pub unsafe extern "C" fn $reserved(
            pipe: *const Pipe, reservation: u64, index: u32, memory: *mut u8, size: u32,
        ) -> i32 {
            // SAFETY: the caller's promises.
            unsafe {
                let pipe = &*pipe;
                let Some(reservation) = pipe.reservation(reservation) else { return FAILED };
                let Some(place) = pipe.place(reservation, index) else { return FAILED };
                pipe.copy(Side::$side, place, memory, size);
            }
            0
        }

        /// Ends a reservation: the other side has its packets from now on.
        ///
        /// # Safety
        /// As for making it; and it must not have been committed.
        #[inline(never)]
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
        pub unsafe extern "C" fn $commit(pipe: *const Pipe, reservation: u64) {
            // SAFETY: the caller's promises.
            unsafe {
                let reservation = (*pipe).reservation(reservation);
                if let Some(reservation) = reservation {
                    (*pipe).commit(Side::$side, reservation);
                }
            }
        }
    )*};
}

sides! {
    Write: spirula_pipe_write, spirula_pipe_reserve_write, spirula_pipe_write_reserved, spirula_pipe_commit_write;
    Read: spirula_pipe_read, spirula_pipe_reserve_read, spirula_pipe_read_reserved, spirula_pipe_commit_read;
}

/// get_pipe_num_packets.
///
/// # Safety
/// `pipe` must be one.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_pipe_num_packets(pipe: *const Pipe) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { (*pipe).packets() }
}

/// get_pipe_max_packets.
///
/// # Safety
/// `pipe` must be one.
#[inline(never)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub unsafe extern "C" fn spirula_pipe_max_packets(pipe: *const Pipe) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { (*pipe).max_packets }
}

/// is_valid_reserve_id.
#[inline(always)]
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
pub extern "C" fn spirula_is_valid_reserve_id(reservation: u64) -> bool {
    ![INVALID as u32, u32::MAX].contains(&(reservation as u32))
}
