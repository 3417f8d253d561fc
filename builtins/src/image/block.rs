//! Images, step 4: what a sub-group reads and writes as a block (cl_intel_subgroups): bytes of rows as they lie in memory, whatever the
//! format.

use super::ImageDescriptor;
use super::address::clamped;
use super::texel;
use std::ptr::copy_nonoverlapping;

/// How many bytes of a row an element of `size` bytes can begin at.
#[inline(always)]
fn starts(image: &ImageDescriptor, size: u32) -> u32 {
    let row = u64::from(image.width) * u64::from(texel::size(image));
    (row + 1).saturating_sub(u64::from(size)).min(i32::MAX as u64) as u32
}

#[inline(always)]
fn address(image: &ImageDescriptor, x: i32, y: i32) -> *mut u8 {
    let row = u64::from(y as u32).wrapping_mul(image.row_pitch);
    image.data.wrapping_add(row.wrapping_add(u64::from(x as u32)) as usize)
}

/// The element of 1, 2, 4 or 8 bytes that begins at byte `x` of row `y`, or the nearest one: what is outside is as the edge. An image that
/// is narrower than an element, for which there is no defined behaviour, yields zero.
///
/// # Safety
/// `image` must describe readable memory.
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
#[inline(always)]
pub unsafe extern "C" fn spirula_block_read(image: *const ImageDescriptor, size: u32, x: i32, y: i32) -> u64 {
    // SAFETY: the caller's promise.
    let image = unsafe { &*image };
    let starts = starts(image, size);
    if starts == 0 {
        return 0;
    }
    let from = address(image, clamped(x, starts), clamped(y, image.height));
    let mut element = [0; 8];
    // SAFETY: the element lies in a row of the image.
    unsafe { copy_nonoverlapping(from, element.as_mut_ptr(), size.min(8) as usize) };
    u64::from_le_bytes(element)
}

/// Writes an element of 1, 2, 4 or 8 bytes from byte `x` of row `y` on, if all of it is within the row.
///
/// # Safety
/// `image` must describe writable memory.
#[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
#[inline(always)]
pub unsafe extern "C" fn spirula_block_write(
    image: *const ImageDescriptor,
    size: u32,
    x: i32,
    y: i32,
    element: u64,
) {
    // SAFETY: the caller's promise.
    let image = unsafe { &*image };
    if (x as u32) < starts(image, size) && (y as u32) < image.height {
        let element = element.to_le_bytes();
        // SAFETY: the element lies in a row of the image.
        unsafe { copy_nonoverlapping(element.as_ptr(), address(image, x, y), size.min(8) as usize) }
    }
}
