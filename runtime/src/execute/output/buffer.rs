//! The buffers that launches leave their records in. A device keeps those that are free, or who has an executor.

use crate::memory::pool::Pool;
use crate::memory::raw::Allocation;
use spirula_interface::printf::{BUFFER_SIZE, FIRST_RECORD};
use std::sync::{Mutex, PoisonError};

/// A buffer that had more in it isn't kept: its memory would be lost to everyone else.
const KEPT: usize = 1 << 20;

/// Buffers of one kind of memory.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pool: Pool,
    free: Mutex<Vec<Buffer>>,
}

impl Buffers {
    /// None yet, of that memory.
    pub(crate) fn new(pool: Pool) -> Buffers {
        Buffers { pool, free: Mutex::default() }
    }

    /// An empty buffer; None without memory.
    pub(crate) fn take(&self) -> Option<Buffer> {
        let spare = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.or_else(|| Buffer::new(&self.pool))
    }

    /// Takes a buffer back when its kernel has ended, and returns its records.
    pub(crate) fn give_back(&self, buffer: Buffer) -> Vec<u8> {
        let used = buffer.used();
        let records = buffer.0.span().slice(FIRST_RECORD, used - FIRST_RECORD).to_vec();
        if used <= KEPT {
            buffer.clear(used);
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        }
        records
    }
}

/// A launch's buffer; zero but for its beginning.
#[derive(Debug)]
pub(crate) struct Buffer(Allocation);

impl Buffer {
    fn new(pool: &Pool) -> Option<Buffer> {
        let buffer = Buffer(pool.zeroed(BUFFER_SIZE)?);
        buffer.clear(FIRST_RECORD);
        Some(buffer)
    }

    /// For the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.0.span().address() as u64
    }

    /// Bytes up to the end of the last record, or of the buffer.
    fn used(&self) -> usize {
        let end = self.0.span().slice(0, FIRST_RECORD).to_vec();
        let end = end.first_chunk().map_or(0, |end| u64::from_le_bytes(*end));
        usize::try_from(end).unwrap_or(usize::MAX).clamp(FIRST_RECORD, BUFFER_SIZE)
    }

    /// Makes it empty, when only its first `used` bytes were written to.
    fn clear(&self, used: usize) {
        self.0.span().slice(0, used).fill(&[0]);
        self.0.span().write((FIRST_RECORD as u64).to_le_bytes().as_slice());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(buffer: &Buffer, end: u64, record: &[u8]) {
        buffer.0.span().slice(FIRST_RECORD, record.len()).write(record);
        buffer.0.span().write(end.to_le_bytes().as_slice());
    }

    #[test]
    fn buffers_come_back_empty() {
        let buffers = Buffers::default();
        let buffer = buffers.take().unwrap();
        let address = buffer.address();
        leave(&buffer, 12, b"abcd");
        assert_eq!(buffers.give_back(buffer), b"abcd");
        let again = buffers.take().unwrap();
        assert_eq!((again.address(), again.used()), (address, FIRST_RECORD));
        assert_ne!(buffers.take().unwrap().address(), address, "it is in use");
        assert_eq!(again.0.span().slice(FIRST_RECORD, 8).to_vec(), [0; 8]);
        assert!(buffers.give_back(again).is_empty());
    }

    #[test]
    fn what_overflowed_is_read_to_its_end_and_not_kept() {
        let buffers = Buffers::default();
        for end in [BUFFER_SIZE as u64 + 1, u64::MAX, 0] {
            let buffer = buffers.take().unwrap();
            leave(&buffer, end, b"abcd");
            let records = buffers.give_back(buffer);
            assert_eq!(records.len(), if end == 0 { 0 } else { BUFFER_SIZE - FIRST_RECORD });
        }
        assert_eq!(buffers.free.lock().unwrap().len(), 1, "only the last is kept");
    }
}
