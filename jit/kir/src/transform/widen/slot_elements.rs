//! Widening: private memory that is accessed in elements of several sizes, as the block of a hash function is that is filled in bytes and
//! read in words. What all lanes access at one place becomes a vector of the smallest elements, of which lanes' own lie side by side
//! ([`super::slots`]): words are put together out of a few vectors instead of gathered.

use super::Facts;
use super::slots::Uses;
use crate::analysis::Shape;
use crate::builder::{Builder, rewrite};
use crate::{Block, CastOp, Flags, Function, Inst, Op, Scalar, Slot, Type};
use std::collections::HashMap;

/// More pieces of an element take longer to put together than to gather.
const MOST_PIECES: u64 = 4;
/// Components of a vector.
const MOST_LANES: u64 = 16;

/// The body with elements of one size in each slot where that helps; none if it does nowhere.
pub(super) fn with_common_elements(body: &Function, facts: &Facts, lanes: u32) -> Option<Function> {
    let (uses, blocks) = (Uses::new(body), blocks_of(body));
    let mut narrowed: HashMap<Inst, Type> = HashMap::new();
    for slot in 0..body.slots.len() {
        let Some(accesses) = uses.accesses(body, Slot(slot as u32), lanes) else { continue };
        let (None, Some(smallest)) = (accesses.element(), accesses.smallest()) else { continue };
        let larger = accesses.accessed.iter().filter(|(_, component, _)| *component > smallest);
        let pieces: Option<Vec<(Inst, Type)>> = larger
            .map(|&(inst, component, whole)| {
                let fits = component <= MOST_PIECES * smallest
                    && is_number_at_one_place(body, facts, (inst, blocks[inst.index()]));
                Some((inst, vector(whole, smallest).filter(|_| fits)?))
            })
            .collect();
        narrowed.extend(pieces.into_iter().flatten());
    }
    if narrowed.is_empty() {
        return None;
    }
    let mut body = body.clone();
    rewrite(&mut body, |builder, inst| match narrowed.get(&inst) {
        Some(ty) => {
            in_pieces(builder, inst, ty);
            true
        }
        None => false,
    });
    Some(body)
}

/// Where each instruction stands. (A store has no value, by which [`Function::homes`] would tell.)
fn blocks_of(body: &Function) -> Vec<Block> {
    let mut blocks = vec![Block(0); body.inst_count()];
    for block in body.block_ids() {
        body.block(block).insts.iter().for_each(|inst| blocks[inst.index()] = block);
    }
    blocks
}

/// Integers of so many bytes that fill so many together.
fn vector(whole: u64, element: u64) -> Option<Type> {
    let lanes = whole / element;
    let is_usual = whole.is_multiple_of(element) && lanes.is_power_of_two() && lanes <= MOST_LANES;
    is_usual.then(|| Type::Vector(Scalar::Int(8 * element as u32), lanes as u32))
}

/// Whether each lane accesses its own memory as far from its beginning as the others do, and what is no pointer.
fn is_number_at_one_place(body: &Function, facts: &Facts, (inst, block): (Inst, Block)) -> bool {
    let (pointer, value) = match *body.op(inst) {
        Op::Load { pointer, .. } => (pointer, body.result(inst)),
        Op::Store { pointer, value, .. } => (pointer, Some(value)),
        _ => return false,
    };
    let is_number =
        value.is_some_and(|value| !matches!(body.ty(value).scalar(), Some(Scalar::Pointer(_)) | None));
    is_number && matches!(facts.shapes.shape_at(pointer, block), Shape::Affine { .. })
}

/// The same access as one to a vector of integers.
fn in_pieces(builder: &mut Builder, inst: Inst, ty: &Type) {
    let mut op = builder.function.op(inst).clone();
    let cast = |value| Op::Cast { op: CastOp::BitCast, flags: Flags::NONE, value };
    match &mut op {
        Op::Store { value, .. } => {
            *value = builder.push(ty.clone(), cast(*value));
            builder.replace(inst, op);
        }
        _ => {
            let loaded = builder.push(ty.clone(), op);
            builder.replace(inst, cast(loaded));
        }
    }
}
