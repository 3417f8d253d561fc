//! Boxes of bytes: how rectangular transfers and images lie in memory, and the one copy that all of them use.

use super::raw::{Source, Span};

/// A box in memory: `rows` × `slices` runs of bytes at regular distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Of the first byte, from the memory's start.
    pub offset: usize,
    /// Bytes from row to row.
    pub row_pitch: usize,
    /// Bytes from slice to slice.
    pub slice_pitch: usize,
}

impl Placement {
    /// One past the last byte of a box of `region` = bytes, rows, slices; None on overflow.
    pub(crate) fn end(&self, region: [usize; 3]) -> Option<usize> {
        let rows = region[1].checked_sub(1)?.checked_mul(self.row_pitch)?;
        let slices = region[2].checked_sub(1)?.checked_mul(self.slice_pitch)?;
        self.offset.checked_add(rows)?.checked_add(slices)?.checked_add(region[0])
    }

    /// The offset of the element at `origin`, when elements have `element` bytes.
    pub(crate) fn offset_of(&self, origin: [usize; 3], element: usize) -> usize {
        self.offset + origin[0] * element + origin[1] * self.row_pitch + origin[2] * self.slice_pitch
    }

    fn row(&self, row: usize, slice: usize) -> usize {
        self.offset + row * self.row_pitch + slice * self.slice_pitch
    }

    /// Rows lie end to end, so that a slice is one run.
    fn tight_rows(&self, region: [usize; 3]) -> bool {
        region[1] == 1 || self.row_pitch == region[0]
    }
}

/// Copies a box of `region` = bytes, rows, slices. Panics when it leaves either memory.
pub(crate) fn copy<'s>(
    destination: Span<'_>,
    destination_place: Placement,
    source: impl Into<Source<'s>>,
    source_place: Placement,
    region: [usize; 3],
) {
    let source = source.into();
    let [width, rows, slices] = region;
    let (run, rows) = match destination_place.tight_rows(region) && source_place.tight_rows(region) {
        true => (width * rows, 1),
        false => (width, rows),
    };
    for slice in 0..slices {
        for row in 0..rows {
            let from = source.slice(source_place.row(row, slice), run);
            destination.slice(destination_place.row(row, slice), run).write(from);
        }
    }
}

/// Repeats `pattern` in each row of a box.
pub(crate) fn fill(destination: Span<'_>, place: Placement, region: [usize; 3], pattern: &[u8]) {
    for slice in 0..region[2] {
        for row in 0..region[1] {
            destination.slice(place.row(row, slice), region[0]).fill(pattern);
        }
    }
}

/// Whether two boxes of `region` bytes, rows, slices in the same memory share a byte (OpenCL 1.2, appendix E, made exact
/// for boxes of equal pitches and safe for others).
pub(crate) fn overlap(a: Placement, b: Placement, region: [usize; 3]) -> bool {
    let (Some(a_end), Some(b_end)) = (a.end(region), b.end(region)) else { return true };
    if a.offset >= b_end || b.offset >= a_end {
        return false;
    }
    if a.row_pitch != b.row_pitch || a.slice_pitch != b.slice_pitch || a.row_pitch == 0 || a.slice_pitch == 0
    {
        return true;
    }
    // The same grid: compare the boxes' coordinates; they can only miss each other if each axis stays inside its pitch.
    let at = |p: Placement| {
        [
            p.offset % p.slice_pitch % p.row_pitch,
            p.offset % p.slice_pitch / p.row_pitch,
            p.offset / p.slice_pitch,
        ]
    };
    let (ca, cb) = (at(a), at(b));
    let wraps = |c: [usize; 3]| {
        c[0] + region[0] > a.row_pitch || (c[1] + region[1]).saturating_mul(a.row_pitch) > a.slice_pitch
    };
    if wraps(ca) || wraps(cb) {
        return true;
    }
    (0..3).all(|axis| ca[axis] < cb[axis] + region[axis] && cb[axis] < ca[axis] + region[axis])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::raw::Allocation;

    fn read(allocation: &Allocation) -> Vec<u8> {
        (0..allocation.span().len()).map(|i| super::super::raw::tests::byte(allocation.span(), i)).collect()
    }

    #[test]
    fn a_box_lands_where_its_placement_says() {
        let source: Vec<u8> = (0..64).collect();
        let destination = Allocation::new(64, 64).unwrap();
        destination.span().fill(&[255]);
        let from = Placement { offset: 9, row_pitch: 8, slice_pitch: 32 };
        let to = Placement { offset: 1, row_pitch: 4, slice_pitch: 16 };
        copy(destination.span(), to, source.as_slice(), from, [3, 2, 2]);
        let result = read(&destination);
        assert_eq!(result[..8], [255, 9, 10, 11, 255, 17, 18, 19]);
        assert_eq!(result[16..24], [255, 41, 42, 43, 255, 49, 50, 51]);
        assert_eq!(result.iter().filter(|&&b| b != 255).count(), 12);
    }

    #[test]
    fn fills_cut_the_last_pattern() {
        let memory = Allocation::new(11, 64).unwrap();
        memory.span().fill(&[1, 2, 3, 4]);
        assert_eq!(read(&memory), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]);
    }

    #[test]
    fn overlap_agrees_with_counting_bytes() {
        let (row_pitch, slice_pitch) = (7, 28);
        let bytes = |offset: usize, region: [usize; 3]| {
            let mut set = std::collections::HashSet::new();
            for z in 0..region[2] {
                for y in 0..region[1] {
                    set.extend((0..region[0]).map(|x| offset + x + y * row_pitch + z * slice_pitch));
                }
            }
            set
        };
        for region in [[1, 1, 1], [3, 2, 2], [7, 1, 1], [2, 4, 1]] {
            for a in 0..56 {
                for b in 0..56 {
                    let place = |offset| Placement { offset, row_pitch, slice_pitch };
                    let truth = !bytes(a, region).is_disjoint(&bytes(b, region));
                    let answer = overlap(place(a), place(b), region);
                    assert!(answer || !truth, "missed: {a} {b} {region:?}");
                    let wraps = |o: usize| o % 7 + region[0] > 7 || o % 28 / 7 + region[1] > 4;
                    assert!(wraps(a) || wraps(b) || answer == truth, "false alarm: {a} {b} {region:?}");
                }
            }
        }
    }
}
