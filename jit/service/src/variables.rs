//! A program's variables in memory: one block for all its objects and for every variant of its kernels that is made later. It
//! lives as long as any of its code does.

#![deny(clippy::arithmetic_side_effects)]

use crate::shared::{Shared, Stretch};
use spirula_interface::program::{MAX_ALIGNMENT, MAX_PROGRAM_DATA, ProgramData};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page, which is what variables are aligned to at most.
const PAGE: usize = MAX_ALIGNMENT as usize;

/// The block, in pages, and what it was made from. Kernels write to it.
#[derive(Debug)]
pub struct Variables {
    pages: Pages,
    description: ProgramData,
}

/// Where it lies.
#[derive(Debug)]
enum Pages {
    Own(Box<[Page]>),
    /// Of the memory that an executor runs code in, too.
    Shared(Arc<Shared>, Stretch),
}

#[repr(align(4096))]
#[derive(Debug)]
struct Page(UnsafeCell<[u8; PAGE]>);

// SAFETY: nothing here reads or writes a page once it can be shared; what kernels do to it is up to the program, as with
// any buffer.
unsafe impl Sync for Page {}

/// Why there is no such block: its description contradicts itself, or is of a size that no program may have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VariablesError {
    /// More than [`MAX_PROGRAM_DATA`].
    #[error("the program's variables take {0} bytes; {MAX_PROGRAM_DATA} are possible")]
    Size(u64),
    /// Not a power of two, or more than [`MAX_ALIGNMENT`].
    #[error("the program's variables are aligned to {0} bytes")]
    Alignment(u32),
    /// More initial bytes than there are bytes.
    #[error("the program's variables have {0} bytes and {1} initial ones")]
    Image(u64, usize),
    /// A pointer that is not inside, or that points outside.
    #[error("a pointer at {0} to {1} is none among {2} bytes of variables")]
    Pointer(u64, u64, u64),
    /// Variables among the code, where an executor can't write to them.
    #[error("the program has variables among its code, which the isolated mode does not allow")]
    InCode,
    /// No memory that an executor has, too.
    #[error("there is no memory for {0} bytes of variables")]
    Memory(u64),
    /// Code of another program.
    #[error("the variables are not those that the code was made for")]
    Others,
}

impl Variables {
    /// The block as the program wants it at first; for code that runs in an executor or in linear memory, there.
    pub fn new(data: &ProgramData, shared: Option<&Arc<Shared>>) -> Result<Variables, VariablesError> {
        let ProgramData { size, align, image, pointers, addresses, .. } = data;
        let whole = usize::try_from(*size).ok().filter(|_| *size <= MAX_PROGRAM_DATA);
        let whole = whole.ok_or(VariablesError::Size(*size))?;
        if whole > 0 && !(align.is_power_of_two() && *align <= MAX_ALIGNMENT) {
            return Err(VariablesError::Alignment(*align));
        }
        if image.len() > whole {
            return Err(VariablesError::Image(*size, image.len()));
        }
        let zero = || Page(UnsafeCell::new([0; PAGE]));
        let mut pages: Box<[Page]> = std::iter::repeat_with(zero).take(whole.div_ceil(PAGE)).collect();
        for (page, bytes) in pages.iter_mut().zip(image.chunks(PAGE)) {
            page.0.get_mut()[..bytes.len()].copy_from_slice(bytes);
        }
        let no_memory = VariablesError::Memory(*size);
        let stretch =
            shared.map(|shared| shared.data.take(whole.next_multiple_of(PAGE), PAGE).ok_or(no_memory));
        let stretch = stretch.transpose()?;
        let base = stretch.as_ref().map_or(pages.as_ptr() as u64, |stretch| stretch.start().as_ptr() as u64);
        for &(at, target) in pointers {
            let wrong = VariablesError::Pointer(at, target, *size);
            let bytes = u64::from(addresses.bytes());
            let end = at.checked_add(bytes).filter(|end| *end <= *size && target <= *size).ok_or(wrong)?;
            let address = base.wrapping_add(target).to_le_bytes();
            for (place, byte) in (at..end).zip(address) {
                let place = place as usize;
                pages[place / PAGE].0.get_mut()[place % PAGE] = byte;
            }
        }
        let pages = match shared.zip(stretch) {
            Some((shared, stretch)) => {
                // SAFETY: the stretch is as long as all pages are.
                #[expect(unsafe_code, reason = "raw memory")]
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        pages.as_ptr().cast(),
                        stretch.start().as_ptr(),
                        size_of_val(&*pages),
                    )
                };
                Pages::Shared(shared.clone(), stretch)
            }
            None => Pages::Own(pages),
        };
        Ok(Variables { pages, description: data.clone() })
    }

    /// Where the code's memory lies; None if anywhere.
    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        match &self.pages {
            Pages::Own(_) => None,
            Pages::Shared(shared, _) => Some(shared),
        }
    }

    /// Where it lies, for code whose variables are described so.
    pub(crate) fn address(&self, data: &ProgramData) -> Result<usize, VariablesError> {
        if *data != self.description {
            return Err(VariablesError::Others);
        }
        Ok(self.addresses().start)
    }

    /// All of it.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = match &self.pages {
            Pages::Own(pages) => pages.as_ptr() as usize,
            Pages::Shared(_, stretch) => stretch.start().as_ptr() as usize,
        };
        start..start.saturating_add(self.description.size as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(size: u64, image: &[u8], pointers: &[(u64, u64)]) -> ProgramData {
        let (image, pointers) = (image.to_vec(), pointers.to_vec());
        ProgramData { size, variables: size, align: 16, image, pointers, addresses: Default::default() }
    }

    fn bytes(variables: &Variables) -> Vec<u8> {
        const BYTES: usize = 3 * PAGE;
        let start = variables.address(&variables.description).unwrap();
        // SAFETY: the test's variables take three pages.
        #[expect(unsafe_code, reason = "raw memory")]
        unsafe { std::slice::from_raw_parts(start as *const u8, BYTES) }.to_vec()
    }

    #[test]
    fn initial_bytes_are_followed_by_zeros_and_pointers_point_inside() {
        let image: Vec<u8> = (0..5000).map(|i| (i % 251) as u8 + 1).collect();
        let description = data(9000, &image, &[(4092, 8), (8992, 9000)]);
        let shared = Shared::new(1 << 20).unwrap();
        for shared in [None, Some(&shared)] {
            let made = Variables::new(&description, shared).unwrap();
            let base = made.address(&description).unwrap() as u64;
            assert_eq!(made.address(&data(9000, &image, &[])), Err(VariablesError::Others));
            assert_eq!(base % 4096, 0);
            let all = bytes(&made);
            let word = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().unwrap());
            assert_eq!((word(4092), word(8992)), (base + 8, base + 9000), "one lies across two pages");
            assert_eq!((&all[..4092], &all[4100..5000]), (&image[..4092], &image[4100..5000]));
            assert!(all[5000..8992].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let error = |data: ProgramData| Variables::new(&data, None).unwrap_err();
        assert_eq!(error(data(MAX_PROGRAM_DATA + 1, &[], &[])), VariablesError::Size(MAX_PROGRAM_DATA + 1));
        assert_eq!(error(data(u64::MAX, &[], &[])), VariablesError::Size(u64::MAX));
        for align in [0, 3, 8192] {
            assert_eq!(error(ProgramData { align, ..data(8, &[], &[]) }), VariablesError::Alignment(align));
        }
        assert_eq!(error(data(4, &[0; 5], &[])), VariablesError::Image(4, 5));
        for (at, target) in [(1, 0), (0, 9), (u64::MAX, 0), (u64::MAX - 7, 0), (0, u64::MAX)] {
            assert_eq!(error(data(8, &[], &[(at, target)])), VariablesError::Pointer(at, target, 8));
        }
        Variables::new(&ProgramData::default(), None).unwrap();
    }
}
