//! Images, step 1: coordinates to texel indices along one axis (OpenCL 1.2, 8.2), in float as the formulas there.

/// A sampler's bits as SPIR has them.
#[derive(Clone, Copy)]
pub(super) struct Sampler(pub u32);

/// How coordinates outside the image are taken; CLK_ADDRESS_NONE counts as CLAMP_TO_EDGE, which is safe.
const CLAMP: u32 = 4;
const REPEAT: u32 = 6;
const MIRRORED_REPEAT: u32 = 8;

impl Sampler {
    #[inline(always)]
    fn is_normalized(self) -> bool {
        self.0 & 1 != 0
    }

    #[inline(always)]
    fn addressing(self) -> u32 {
        self.0 & 0xE
    }

    /// Whether there is a border outside of the image.
    #[inline(always)]
    pub fn has_border(self) -> bool {
        self.addressing() == CLAMP
    }

    /// Whether there is anything defined outside of the image: with CLK_ADDRESS_NONE there is not.
    #[cfg(spirula_bitcode)]
    #[inline(always)]
    pub fn says_what_is_outside(self) -> bool {
        self.addressing() != 0
    }

    #[inline(always)]
    pub fn is_linear(self) -> bool {
        self.0 & 0x20 != 0
    }
}

/// One or two texels along an axis; they may be outside still. `weight` is the second one's.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub first: i32,
    pub second: i32,
    pub weight: f32,
}

/// The nearest index that exists.
#[inline(always)]
pub(super) fn clamped(index: i32, size: u32) -> i32 {
    let highest = size as i32 - 1;
    let low = if index > highest { highest } else { index };
    if low < 0 { 0 } else { low }
}

/// The position in texels, wrapped around by the repeating modes.
#[inline(always)]
fn position(coordinate: f32, size: f32, sampler: Sampler) -> f32 {
    let mirrored = (coordinate - 2.0 * (0.5 * coordinate).round_ties_even()).abs();
    let folded = match sampler.addressing() {
        REPEAT => coordinate - coordinate.floor(),
        MIRRORED_REPEAT => mirrored,
        _ => coordinate,
    };
    if sampler.is_normalized() { folded * size } else { coordinate }
}

/// A float coordinate under CLK_FILTER_NEAREST: the texel's index, which may be outside still.
#[inline(always)]
pub(super) fn nearest(coordinate: f32, size: u32, sampler: Sampler) -> i32 {
    let index = position(coordinate, size as f32, sampler).floor() as i32;
    // s - floor(s) may round up to 1: a whole turn.
    if sampler.addressing() == REPEAT && index >= size as i32 {
        index.wrapping_sub(size as i32)
    } else {
        index
    }
}

/// A float coordinate under CLK_FILTER_LINEAR.
#[inline(always)]
pub(super) fn linear(coordinate: f32, size: u32, sampler: Sampler) -> Place {
    let shifted = position(coordinate, size as f32, sampler) - 0.5;
    let floor = shifted.floor();
    let (first, count) = (floor as i32, size as i32);
    let second = first.saturating_add(1);
    let repeats = sampler.addressing() == REPEAT;
    let first = if repeats && first < 0 { first.wrapping_add(count) } else { first };
    let second = if repeats && second > count - 1 { second.wrapping_sub(count) } else { second };
    Place { first, second, weight: shifted - floor }
}

/// The layer of an image array.
#[inline(always)]
pub(super) fn layer(coordinate: f32, count: u32) -> i32 {
    clamped(coordinate.round_ties_even() as i32, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(coordinates: &[f32], sampler: u32) -> Vec<i32> {
        coordinates.iter().map(|&c| nearest(c, 4, Sampler(sampler))).collect()
    }

    #[test]
    fn every_mode_has_its_own_outside() {
        assert_eq!(indices(&[-9.0, -0.1, 0.0, 3.9, 4.0, f32::NAN], 0x12), [-9, -1, 0, 3, 4, 0]);
        assert_eq!(indices(&[-0.25, 0.0, 0.999, 1.0, 1.3, -1.0], 0x17), [3, 0, 3, 0, 1, 0]);
        assert_eq!(indices(&[-1e-9], 0x17), [0]);
        assert_eq!(indices(&[-0.25, 0.0, 0.999, 1.0, 1.3, 2.1], 0x19), [1, 0, 3, 4, 2, 0]);
        assert_eq!([-5, 0, 3, 4, i32::MAX].map(|index| clamped(index, 4)), [0, 0, 3, 3, 3]);
    }

    #[test]
    fn linear_takes_neighbours() {
        let place = |coordinate, sampler| {
            let Place { first, second, weight } = linear(coordinate, 4, Sampler(sampler));
            (first, second, weight)
        };
        assert_eq!(place(1.75, 0x22), (1, 2, 0.25));
        assert_eq!(place(0.0, 0x22), (-1, 0, 0.5));
        assert_eq!(place(4.0, 0x24), (3, 4, 0.5));
        assert_eq!(place(0.0, 0x27), (3, 0, 0.5));
        assert_eq!(place(1.0, 0x29), (3, 4, 0.5));
    }

    #[test]
    fn layers_round_to_even() {
        assert_eq!([-1.0, 0.5, 1.5, 2.4, 9.0].map(|c| layer(c, 4)), [0, 0, 2, 2, 3]);
    }
}
