//! Relocations (System V ABI for AMD64, 4.4): those that LLVM writes for position-independent code of the small code
//! model, and no other.

use super::elf::{Object, Place, Relocation, Symbol};
use super::error::{Cause, RelocationFault, readable};
use super::image::Layout;
use object::elf::{
    R_X86_64_64, R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};

/// What a relocation puts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address.
    Absolute,
    /// The distance to something of the program's own.
    Distance,
    /// The distance to a function, or to what jumps there.
    Call,
    /// The distance to the slot that holds the address of something outside.
    Slot,
}

impl Kind {
    /// None for those that aren't allowed. Absolute ones of 32 bits are not: programs lie above 4 GB.
    pub(super) fn of(number: u32) -> Option<Kind> {
        Some(match number {
            R_X86_64_64 => Kind::Absolute,
            R_X86_64_PC32 => Kind::Distance,
            R_X86_64_PLT32 => Kind::Call,
            // Instructions that could do without a slot, if they were rewritten, are left as they are.
            R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX => Kind::Slot,
            _ => return None,
        })
    }

    /// Bytes that it changes.
    pub(super) fn size(self) -> usize {
        if self == Kind::Absolute { 8 } else { 4 }
    }
}

/// What a relocation refers to.
enum Target {
    /// In the image, at this offset.
    Own(usize),
    /// The external of this number.
    External(usize),
}

/// Fills in all relocations of an image that will run at `address`.
pub(super) fn relocate(
    image: &mut [u8],
    address: usize,
    layout: &Layout,
    objects: &[Object],
) -> Result<(), Cause> {
    for (number, object) in objects.iter().enumerate() {
        for relocation in &object.relocations {
            apply(image, address, layout, (number, object), relocation).map_err(|fault| {
                let section = object.sections[relocation.section].as_ref().map_or(&b""[..], |s| s.name);
                Cause::Relocation { section: readable(section), offset: relocation.offset as u64, fault }
            })?;
        }
    }
    Ok(())
}

fn apply(
    image: &mut [u8],
    address: usize,
    layout: &Layout,
    (number, object): (usize, &Object),
    relocation: &Relocation,
) -> Result<(), RelocationFault> {
    let symbol = &object.symbols[relocation.symbol];
    let target = target(layout, number, symbol)?;
    let start = layout.section(number, relocation.section).ok_or(RelocationFault::Outside)?;
    let place = start.checked_add(relocation.offset).ok_or(RelocationFault::Outside)?;
    let end = place.checked_add(relocation.kind.size()).ok_or(RelocationFault::Outside)?;
    let bytes = image.get_mut(place..end).ok_or(RelocationFault::Outside)?;
    // 64-bit numbers, which can't overflow in 128 bits.
    let addend = i128::from(relocation.addend);
    let distance = |to: usize| to as i128 - place as i128 + addend;
    let value = match (relocation.kind, target) {
        (Kind::Absolute, Target::Own(offset)) => address as i128 + offset as i128 + addend,
        (Kind::Absolute, Target::External(external)) => layout.externals[external].address as i128 + addend,
        (Kind::Distance | Kind::Call, Target::Own(offset)) => distance(offset),
        (Kind::Call, Target::External(external)) => distance(layout.stub(external)),
        (Kind::Slot, Target::External(external)) => distance(layout.slot(external)),
        (Kind::Distance, Target::External(_)) => return Err(RelocationFault::TooFar(readable(symbol.name))),
        (Kind::Slot, Target::Own(_)) => return Err(RelocationFault::OwnSlot(readable(symbol.name))),
    };
    match relocation.kind {
        Kind::Absolute => {
            let value = u64::try_from(value).map_err(|_| RelocationFault::Range)?;
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        Kind::Distance | Kind::Call | Kind::Slot => {
            let value = i32::try_from(value).map_err(|_| RelocationFault::Range)?;
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
    Ok(())
}

fn target(layout: &Layout, number: usize, symbol: &Symbol) -> Result<Target, RelocationFault> {
    let unmapped = || RelocationFault::Unmapped(readable(symbol.name));
    match symbol.place {
        Place::Here { section, offset } => {
            let start = layout.section(number, section).ok_or_else(unmapped)?;
            start.checked_add(offset).map(Target::Own).ok_or(RelocationFault::Range)
        }
        Place::External => {
            let own = layout.function(symbol.name).map(Target::Own);
            own.or_else(|| layout.external(symbol.name).map(Target::External)).ok_or_else(unmapped)
        }
        Place::Nowhere => Err(unmapped()),
    }
}
