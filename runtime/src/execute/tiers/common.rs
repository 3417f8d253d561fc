//! What a kernel's launches had in common until now, for which its optimized code is made.

use spirula_interface::image_formats::ImageFormats;
use spirula_interface::options::Usual;
use spirula_interface::program::Launch;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Seen by launches of several threads at once.
#[derive(Default)]
pub(super) struct Common {
    /// The lengths of rows, or-ed: what their last bits are of is what all are multiples of.
    rows: AtomicU64,
    /// Whether one may have had buffers with memory in common.
    overlap: AtomicBool,
    /// The groups' size as a number, of which 21 bits are a dimension's. 0 before the first; `SEVERAL` where they differ.
    size: AtomicU64,
    /// The images' formats, each as a number.
    formats: [AtomicU64; ImageFormats::MOST],
}

const BITS: u32 = 21;
const SEVERAL: u64 = u64::MAX;

impl Common {
    /// One more, whose rows lie in that dimension.
    pub(super) fn see(&self, launch: &Launch, row_dimension: u8) {
        let row = launch.local_size.get(usize::from(row_dimension)).copied().unwrap_or(1);
        self.rows.fetch_or(row, Ordering::Relaxed);
        self.overlap.fetch_or(launch.disjoint_buffers == 0, Ordering::Relaxed);
        see_one(&self.size, number(launch).unwrap_or(SEVERAL));
        for (image, common) in self.formats.iter().enumerate() {
            if let Some((order, ty)) = launch.formats.get(image) {
                see_one(common, u64::from(order) << 32 | u64::from(ty));
            }
        }
    }

    /// What they had in common, with rows of so many lanes at most.
    pub(super) fn usual(&self, most_lanes: u32) -> Usual {
        let rows = self.rows.load(Ordering::Relaxed);
        let size = self.size.load(Ordering::Relaxed);
        let dimension = |d: u32| (size >> (d * BITS)) as u32 & ((1 << BITS) - 1);
        Usual {
            rows: 1 << rows.trailing_zeros().min(most_lanes.ilog2()),
            disjoint: !self.overlap.load(Ordering::Relaxed),
            size: (size != 0 && size != SEVERAL).then(|| [0, 1, 2].map(dimension)),
            formats: self.formats(),
        }
    }

    fn formats(&self) -> ImageFormats {
        let mut known = ImageFormats::UNKNOWN;
        for (image, format) in self.formats.iter().enumerate() {
            let format = format.load(Ordering::Relaxed);
            known.set(image, (format >> 32) as u32, format as u32);
        }
        known
    }
}

/// Makes `SEVERAL` of a number that is another one in this launch.
fn see_one(common: &AtomicU64, number: u64) {
    if let Err(before) = common.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
        && ![number, SEVERAL].contains(&before)
    {
        common.store(SEVERAL, Ordering::Relaxed);
    }
}

/// The size of a launch's groups as a number; None for smaller ones at the ends of a range, and for sizes that no number stands for.
fn number(launch: &Launch) -> Option<u64> {
    let [x, y, z] = launch.local_size;
    let fits = launch.local_size == launch.enqueued_local_size && (x | y | z) >> BITS == 0;
    fits.then_some(x | y << BITS | z << (2 * BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(sizes: &[[u64; 3]]) -> Usual {
        let common = Common::default();
        sizes.iter().for_each(|&size| common.see(&Launch::whole(3, [0; 3], size.map(|n| 4 * n), size), 1));
        common.usual(64)
    }

    #[test]
    fn one_size_is_what_all_launches_had() {
        let nothing = Usual::NOTHING;
        assert_eq!(usual(&[]), Usual { rows: 64, disjoint: true, ..nothing });
        let column = [1, 256, 1];
        assert_eq!(usual(&[column; 3]), Usual { rows: 64, size: Some([1, 256, 1]), ..nothing });
        assert_eq!(usual(&[column, [256, 24, 1], column]), Usual { rows: 8, ..nothing });
        assert_eq!(usual(&[[1 << 20, 1, 1 << 20]]).size, Some([1 << 20, 1, 1 << 20]));
        assert_eq!(usual(&[[1 << BITS, 1, 1]]).size, None);
    }

    #[test]
    fn formats_are_those_of_all_launches() {
        const RGBA: u32 = 0x10B5;
        const UNORM_INT8: u32 = 0x10D2;
        const FLOAT: u32 = 0x10DE;
        let common = Common::default();
        for second in [FLOAT, UNORM_INT8] {
            let mut launch = Launch::whole(1, [0; 3], [64, 1, 1], [16, 1, 1]);
            launch.formats.set(0, RGBA, FLOAT);
            launch.formats.set(1, RGBA, second);
            common.see(&launch, 0);
            assert_eq!(common.usual(64).formats.get(0), Some((RGBA, FLOAT)));
            assert_eq!(common.usual(64).formats.get(1).is_some(), second == FLOAT);
        }
    }

    #[test]
    fn ends_of_ranges_have_no_size() {
        let common = Common::default();
        let whole = Launch::whole(1, [0; 3], [64, 1, 1], [16, 1, 1]);
        common.see(&Launch { enqueued_local_size: [32, 1, 1], ..whole }, 0);
        assert_eq!(common.usual(64).size, None);
    }
}
