//! Copies that are longer than caches. A plain store first reads the line that it writes; C's library goes past the caches only from
//! sizes on that differ between its versions and processors. Measured with glibc 2.36: on Zen 4 `memcpy` 10 GB/s of 512 MiB, this 15; on Granite
//! Rapids `memcpy` 14 of 256 MiB, this 22. (Where what is read was fetched past the caches, too, whole commands went at 10 there, not at 16:
//! Intel's processors fetch less ahead so. On Zen 4 it was measured in that way only.)

/// From so many bytes on what is written would leave the caches before anybody reads it.
pub(super) const LEAST: usize = 32 << 20;

/// Copies bytes.
///
/// # Safety
/// Both must be valid for so many bytes, and may not overlap.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{
        __m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128,
    };
    const LINE: usize = 64;
    /// So far ahead is asked for what is read.
    const AHEAD: usize = 1024;
    let head = to.align_offset(LINE).min(len);
    let end = len - (len - head) % LINE;
    // SAFETY: all offsets are below `len`, up to which the caller promises both to be valid; a prefetch reads nothing. From `head`
    // on a line of `to` is aligned, as a store past the caches must be. The fence orders these before what follows.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let mut at = head;
        while at < end {
            let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(AHEAD));
            let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
            for (part, bytes) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), bytes);
            }
            at += LINE;
        }
        _mm_sfence();
        std::ptr::copy_nonoverlapping(from.add(end), to.add(end), len - end);
    }
}

/// As C's library does it.
///
/// # Safety
/// Both must be valid for so many bytes, and may not overlap.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(test)]
mod tests {
    use super::super::Allocation;

    #[test]
    fn long_copies_begin_and_end_anywhere() {
        const ROOM: usize = super::LEAST + 1024;
        let [from, to] = [0, 1].map(|_| Allocation::new(ROOM, 4096).unwrap());
        let bytes: Vec<u8> = (0..ROOM).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
        from.span().write(&bytes[..]);
        for (start, target, more) in [(0, 0, 0), (3, 64, 1), (64, 7, 63), (5, 129, 200)] {
            to.span().fill(&[0]);
            let len = super::LEAST + more;
            to.span().slice(target, len).write(from.span().slice(start, len));
            let all = to.span().to_vec();
            assert!(all[target..target + len] == bytes[start..start + len], "{start} {target} {more}");
            assert!(all[..target].iter().chain(&all[target + len..]).all(|&byte| byte == 0));
        }
        // To where its own end lies.
        from.span().slice(100, super::LEAST).write(from.span().slice(0, super::LEAST));
        assert!(from.span().to_vec()[100..100 + super::LEAST] == bytes[..super::LEAST]);
    }
}
