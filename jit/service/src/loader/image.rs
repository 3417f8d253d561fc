//! Where everything goes: the sections of all objects, by what may be done with them, and the tables through which code
//! reaches what lies outside.
//!
//! ```text
//! code        sections, each with a trap behind it | stubs: jmp [slot]     read, execute
//! constants   slots: addresses of externals | sections                     read
//! variables   sections with a value | sections of zeros                    read, write
//! ```

use super::elf::{Object, Part, Place};
use super::error::{Cause, SymbolFault, readable};
use super::externals::External;
use super::memory::{PAGE, Protection};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Bytes of an address.
const SLOT: usize = 8;
/// Bytes of a stub: `jmp [rip + distance]` takes six of them.
const STUB: usize = 8;
const JUMP: usize = 6;
/// `int3`: what nothing should run into.
const TRAP: u8 = 0xcc;

/// How much memory a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all that is mapped; more than 2 GB, which distances reach, count as that.
    pub image: usize,
    /// Bytes of them that no object holds: a small object can ask for any number.
    pub zeros: usize,
}

impl Default for Limits {
    /// Code takes kilobytes, seldom megabytes. Constants may be large tables, but their bytes are part of the object.
    /// Zeros are variables without a value of their own.
    fn default() -> Limits {
        Limits { image: 1 << 30, zeros: 256 << 20 }
    }
}

/// The places of everything in a program's memory, as offsets.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    /// By object and the section's number there; None for what isn't mapped.
    sections: Vec<Vec<Option<usize>>>,
    /// What the program uses from outside.
    pub externals: Vec<External<'a>>,
    /// Where the functions begin that objects show to each other and to the outside, by name.
    functions: HashMap<&'a [u8], Option<usize>>,
    stubs: usize,
    slots: usize,
    /// Ranges of whole pages, and what may be done with them.
    pub parts: Vec<(Range<usize>, Protection)>,
    /// Bytes of all parts.
    pub size: usize,
}

impl<'a> Layout<'a> {
    /// Lays out the objects, which may use each other's functions and these externals; of several with one name the first counts.
    /// Errors: several objects define a function, or none a thing that is used.
    pub(super) fn new(
        objects: &[Object<'a>],
        externals: &[External<'a>],
        limits: Limits,
    ) -> Result<Layout<'a>, Cause> {
        check_zeros(objects, limits.zeros)?;
        let sections = objects.iter().map(|object| vec![None; object.sections.len()]).collect();
        let externals = used(objects, externals)?;
        let count = externals.len();
        let (parts, functions) = (Vec::new(), HashMap::new());
        let mut layout = Layout { sections, externals, functions, stubs: 0, slots: 0, parts, size: 0 };
        let mut cursor = Cursor { at: 0, limit: limits.image.min(i32::MAX as usize) };

        layout.place(objects, Part::Code, &mut cursor)?;
        layout.stubs = cursor.take(count * STUB, STUB)?;
        layout.end_part(&mut cursor, Protection::ReadExecute)?;

        layout.slots = cursor.take(count * SLOT, SLOT)?;
        layout.place(objects, Part::Constants, &mut cursor)?;
        layout.end_part(&mut cursor, Protection::Read)?;

        layout.place(objects, Part::Data, &mut cursor)?;
        layout.place(objects, Part::Zeros, &mut cursor)?;
        layout.end_part(&mut cursor, Protection::ReadWrite)?;
        layout.find_functions(objects)?;
        Ok(layout)
    }

    fn find_functions(&mut self, objects: &[Object<'a>]) -> Result<(), Cause> {
        for (number, object) in objects.iter().enumerate() {
            for function in &object.functions {
                let place = self.section(number, function.section).map(|start| start + function.offset);
                if self.functions.insert(function.name, place).is_some() {
                    let symbol = readable(function.name);
                    return Err(Cause::Symbol { symbol, fault: SymbolFault::Twice });
                }
            }
        }
        Ok(())
    }

    /// Gives all sections of one part their places.
    fn place(&mut self, objects: &[Object], part: Part, cursor: &mut Cursor) -> Result<(), Cause> {
        // LLVM may leave a function without instructions, if all that it could do is undefined.
        let trap = usize::from(part == Part::Code);
        for (object, places) in objects.iter().zip(&mut self.sections) {
            for (section, place) in object.sections.iter().zip(places) {
                if let Some(section) = section.as_ref().filter(|section| section.part == part) {
                    *place = Some(cursor.take(section.size, section.align)?);
                    cursor.take(trap, 1)?;
                }
            }
        }
        Ok(())
    }

    /// What was placed since the last part gets this protection; the next one begins on a page of its own.
    fn end_part(&mut self, cursor: &mut Cursor, protection: Protection) -> Result<(), Cause> {
        let start = self.size;
        self.size = cursor.take(0, PAGE)?;
        self.parts.push((start..self.size, protection));
        Ok(())
    }

    /// Where a section of an object begins; None for one that isn't mapped.
    pub(super) fn section(&self, object: usize, section: usize) -> Option<usize> {
        *self.sections.get(object)?.get(section)?
    }

    /// The number of the external of this name, if the program uses it.
    pub(super) fn external(&self, name: &[u8]) -> Option<usize> {
        self.externals.iter().position(|external| external.name.as_bytes() == name)
    }

    /// Where the address of an external stands.
    pub(super) fn slot(&self, external: usize) -> usize {
        self.slots + external * SLOT
    }

    /// The code that jumps to an external, which may be farther away than a call reaches.
    pub(super) fn stub(&self, external: usize) -> usize {
        self.stubs + external * STUB
    }

    /// Where the function of that name begins, which some object shows.
    pub(super) fn function(&self, name: &[u8]) -> Option<usize> {
        self.functions.get(name).copied().flatten()
    }

    /// Where the functions of these names begin. Errors: one is missing.
    pub(super) fn entries(&self, names: &[&str]) -> Result<Vec<usize>, Cause> {
        let place = |name: &&str| {
            let place = self.function(name.as_bytes());
            place.ok_or_else(|| Cause::NoEntry(readable(name.as_bytes())))
        };
        names.iter().map(place).collect()
    }

    /// Copies to zeroed memory of at least [`Layout::size`] bytes what is known before relocation.
    pub(super) fn fill(&self, image: &mut [u8], objects: &[Object]) {
        for (range, _) in self.parts.iter().filter(|(_, protection)| *protection == Protection::ReadExecute) {
            image[range.clone()].fill(TRAP);
        }
        for (object, places) in objects.iter().zip(&self.sections) {
            for (section, place) in object.sections.iter().zip(places) {
                if let (Some(section), Some(start)) = (section, *place) {
                    image[start..start + section.bytes.len()].copy_from_slice(section.bytes);
                }
            }
        }
        for (number, external) in self.externals.iter().enumerate() {
            let (slot, stub) = (self.slot(number), self.stub(number));
            image[slot..slot + SLOT].copy_from_slice(&external.address.to_le_bytes());
            // Slots lie behind stubs, and everything within 2 GB.
            let distance = (slot - (stub + JUMP)) as i32;
            image[stub..stub + 2].copy_from_slice(&[0xff, 0x25]);
            image[stub + 2..stub + JUMP].copy_from_slice(&distance.to_le_bytes());
        }
    }
}

/// Hands out places one after the other.
struct Cursor {
    at: usize,
    limit: usize,
}

impl Cursor {
    /// A place for so many bytes.
    fn take(&mut self, size: usize, align: usize) -> Result<usize, Cause> {
        let start = self.at.checked_next_multiple_of(align);
        let taken = start.and_then(|start| Some((start, start.checked_add(size)?)));
        let (start, end) = taken
            .filter(|&(_, end)| end <= self.limit)
            .ok_or(Cause::TooLarge { what: "code and data", limit: self.limit })?;
        self.at = end;
        Ok(start)
    }
}

/// Refuses more than `limit` bytes of zeros.
fn check_zeros(objects: &[Object], limit: usize) -> Result<(), Cause> {
    let sections = objects.iter().flat_map(|object| object.sections.iter().flatten());
    let mut sizes = sections.filter(|section| section.part == Part::Zeros).map(|section| section.size);
    let total = sizes.try_fold(0, usize::checked_add);
    total
        .filter(|&total| total <= limit)
        .map(|_| ())
        .ok_or(Cause::TooLarge { what: "variables without an initial value", limit })
}

/// The externals that the objects name and none of them defines. Errors: all that nothing provides.
fn used<'a>(objects: &[Object], externals: &[External<'a>]) -> Result<Vec<External<'a>>, Cause> {
    let symbols = objects.iter().flat_map(|object| &object.symbols);
    let outside = symbols.filter(|symbol| symbol.place == Place::External);
    let own = objects.iter().flat_map(|object| &object.functions);
    let own: BTreeSet<&[u8]> = own.map(|function| function.name).collect();
    let names: BTreeSet<&[u8]> =
        outside.map(|symbol| symbol.name).filter(|name| !own.contains(name)).collect();
    let (mut used, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match externals.iter().find(|external| external.name.as_bytes() == name) {
            Some(external) => used.push(*external),
            None => missing.push(readable(name)),
        }
    }
    if missing.is_empty() { Ok(used) } else { Err(Cause::Unresolved(missing)) }
}
