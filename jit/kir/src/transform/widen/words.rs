//! Widening: small vectors that fill a word, such as a pixel of four bytes. Each lane's is loaded and stored as an integer, whose parts are
//! shifted out and in: taken apart as bytes they would be sorted in registers, or gathered one by one.

use super::Widener;
use crate::{BinaryOp, CastOp, Scalar, Value};

/// The integer that so many elements fill, if they are smaller ones and it is no longer than an int.
pub(super) fn word(scalar: Scalar, elements: u32) -> Option<Scalar> {
    let Scalar::Int(bits @ (8 | 16)) = scalar else { return None };
    matches!(bits * elements, 16 | 32).then_some(Scalar::Int(bits * elements)).filter(|_| elements > 1)
}

impl Widener<'_> {
    /// The first `count` parts of what each lane loads.
    pub(super) fn load_words(
        &mut self,
        word: Scalar,
        (scalar, count): (Scalar, u32),
        pointer: Value,
        align: u32,
    ) -> Vec<Value> {
        let (mask, narrow) = (self.mask(), self.wide(scalar));
        let words = self.load_lanes(self.wide(word), pointer, mask, align);
        (0..count)
            .map(|number| {
                let part = self.shift(BinaryOp::LShr, words, number * scalar.bits() as u32);
                self.cast(CastOp::Trunc, narrow.clone(), part)
            })
            .collect()
    }

    /// Stores all parts of each lane's word.
    pub(super) fn store_words(&mut self, word: Scalar, parts: &[Value], pointer: Value, align: u32) {
        let (mask, wide) = (self.mask(), self.wide(word));
        let shifted: Vec<Value> = (0..)
            .zip(parts)
            .map(|(number, &part): (u32, _)| {
                let bits = self.ty(part).scalar().map_or(0, Scalar::bits) as u32;
                let part = self.cast(CastOp::ZExt, wide.clone(), part);
                self.shift(BinaryOp::Shl, part, number * bits)
            })
            .collect();
        let words = shifted.into_iter().reduce(|a, b| self.binary(BinaryOp::Or, a, b));
        if let Some(words) = words {
            self.store_lanes(words, pointer, mask, align);
        }
    }
}
