//! Checked kernels (`SPIRULA_CHECK`): what a launch is given to check by, and what it found. The compiler wrote the checks; each has a record
//! here that it leaves what it found first in.

mod races;
mod report;

use crate::context::Context;
use crate::error::{Error, Result, Status};
use crate::execute::arena::BLOCK_ALIGN;
use crate::execute::launch::Invocation;
use crate::memory::raw::{Allocation, PAGE, Source};
use races::RaceMemory;
use report::Finding;
use spirula_interface::check::{Block, Bounds, Checked, Checks, DUMMY_BYTES, Record, Site};
use spirula_interface::program::{HiddenKind, KernelInfo, KernelSignature, Launch};
use std::cmp::Reverse;
use std::ops::Range;

/// What a launch's pointers may lead to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// For each argument, in order.
    pub arguments: Vec<Bounds>,
    /// All that is known besides; here [`Bounds::offset`] says how many bytes an object takes, of which it may have lost all.
    pub others: Vec<Bounds>,
    /// Where the program's variables lie.
    pub data: Range<u64>,
}

/// The memory of a launch's checks.
#[derive(Debug)]
pub(crate) struct Checking {
    /// A [`Block`], and the arguments' [`Bounds`].
    block: Allocation,
    /// A [`Record`] for each site.
    records: Allocation,
    /// A shadow that is all written, and one that nobody reads.
    _dummies: Allocation,
    /// Keeps the others' [`Bounds`].
    _objects: Allocation,
    /// Keeps what is known of who accessed what.
    _races: Option<RaceMemory>,
}

/// Bytes of words.
fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

fn words(bounds: &Bounds) -> [u64; 5] {
    [bounds.base, bounds.readable, bounds.writable, bounds.offset, bounds.shadow]
}

/// Memory with these bytes in it.
fn placed(content: &[u8]) -> Option<Allocation> {
    let memory = Allocation::new(content.len().max(1), BLOCK_ALIGN)?;
    memory.span().slice(0, content.len()).write(Source::from(content));
    Some(memory)
}

/// The objects by address, without those that lie within others: nobody knows of which of them a pointer in memory was made.
fn apart(mut objects: Vec<Bounds>) -> Vec<Bounds> {
    let end = |object: &Bounds| object.base.saturating_add(object.offset);
    objects.sort_by_key(|object| (object.base, Reverse(object.offset)));
    let mut last = 0;
    objects.retain(|object| {
        let is_within = last > object.base && last >= end(object);
        last = last.max(end(object));
        !is_within
    });
    objects
}

impl Checking {
    /// For a launch of that kernel, of which this is the first part; None if it isn't checked. CL_OUT_OF_RESOURCES without memory.
    pub(crate) fn begin(info: &KernelInfo, part: &Invocation) -> Result<Option<Checking>> {
        if info.signature.places.is_empty() {
            return Checking::of(info, &part.objects, part.local_size, &[]);
        }
        let arguments = part.arguments.bytes();
        let places = info.signature.places.iter();
        let meets: Vec<bool> = places.map(|places| !places.are_apart(&part.launch, &arguments)).collect();
        Checking::of(info, &part.objects, part.local_size, &meets)
    }

    /// For a launch with so many bytes of local memory, in which work-items meet at those of the kernel's places.
    fn of(
        info: &KernelInfo,
        objects: &Objects,
        local_size: usize,
        meets: &[bool],
    ) -> Result<Option<Checking>> {
        let signature = &info.signature;
        if signature.hidden_offset(HiddenKind::Checks).is_none() {
            return Ok(None);
        }
        let made = Checking::make(signature, objects, local_size, meets);
        let failed = |why| Status::OutOfResources.because(format!("kernel {}: {why}", signature.name));
        made.map(Some).map_err(failed)
    }

    fn make(
        signature: &KernelSignature,
        objects: &Objects,
        local_size: usize,
        meets: &[bool],
    ) -> std::result::Result<Checking, String> {
        let no_memory = || "no memory for its checks".to_owned();
        let records =
            Allocation::zeroed((signature.sites.len() * size_of::<Record>()).max(1)).ok_or_else(no_memory)?;
        let others = apart(objects.others.clone());
        let placed_objects = placed(&bytes(others.iter().flat_map(words))).ok_or_else(no_memory)?;
        // Of memory that nobody told us of all is taken for right, but what nothing can be in.
        let start = PAGE as u64;
        let room = u64::MAX - 2 * start;
        let sites = &signature.sites;
        let races = match sites.iter().any(|site| matches!(site.what, Checked::Race { .. })) {
            true => Some(RaceMemory::new(signature, (objects, meets), local_size, &records)?),
            false => None,
        };
        let dummies = placed(&[[0xff_u8; DUMMY_BYTES], [0; DUMMY_BYTES]].concat()).ok_or_else(no_memory)?;
        let written = dummies.span().address() as u64;
        let block = Block {
            records: records.span().address() as u64,
            record_count: signature.sites.len() as u64,
            objects: placed_objects.span().address() as u64,
            object_count: others.len() as u64,
            local: to_local_shadow(local_size) as u64,
            written,
            sink: written + DUMMY_BYTES as u64,
            others: Bounds::of_anything(start, room),
            races: races.as_ref().map_or(0, RaceMemory::address),
        };
        let Block {
            records: at,
            record_count,
            objects: list,
            object_count,
            local,
            written,
            sink,
            others,
            ..
        } = block;
        let head = [at, record_count, list, object_count, local, written, sink];
        // What isn't known is as much as there can be.
        let unknown = Bounds::of_anything(0, u64::MAX);
        let argument = |number: usize| words(objects.arguments.get(number).unwrap_or(&unknown));
        let all = head.into_iter().chain(words(&others)).chain([block.races]);
        let all = all.chain((0..signature.arguments.len()).flat_map(argument));
        Ok(Checking {
            block: placed(&bytes(all)).ok_or_else(no_memory)?,
            records,
            _dummies: dummies,
            _objects: placed_objects,
            _races: races,
        })
    }

    /// Gives it to a part of the launch.
    pub(crate) fn give(&self, info: &KernelInfo, part: &mut Invocation) {
        if let Some(offset) = info.signature.hidden_offset(HiddenKind::Checks) {
            let address = self.block.span().address() as u64;
            part.arguments.put(offset as usize, &address.to_ne_bytes());
        }
    }

    /// Tells what was found. The error if the launch's results are not to be trusted.
    pub(crate) fn end(self, info: &KernelInfo, launch: &Launch, context: Option<&Context>) -> Result<()> {
        let findings = report::findings(&info.signature, &self.records.span().to_vec(), launch);
        if findings.is_empty() {
            return Ok(());
        }
        report::write(&findings);
        let (grave, harmless): (Vec<&Finding>, Vec<&Finding>) =
            findings.iter().partition(|finding| finding.is_grave());
        for finding in harmless.into_iter().filter(|finding| !finding.is_remark()) {
            context.inspect(|context| context.report(finding));
        }
        match &grave[..] {
            [] => Ok(()),
            [first, rest @ ..] => Err(failure(first, rest.len())),
        }
    }
}

fn failure(first: &Finding, more: usize) -> Error {
    let more = if more > 0 { format!("; and {more} more findings of SPIRULA_CHECK") } else { String::new() };
    Status::OutOfResources.because(format!("{first}{more}"))
}

/// From a group's local memory of so many bytes to its shadow.
pub(crate) fn to_local_shadow(local_size: usize) -> usize {
    local_size.next_multiple_of(BLOCK_ALIGN)
}

/// Bytes that a group's local memory takes with its shadow, if it has one.
pub(crate) fn local_room(local_size: usize) -> usize {
    match spirula_service::settings::get().compiler.checks.contains(Checks::UNINITIALIZED) {
        true => 2 * to_local_shadow(local_size),
        false => local_size,
    }
}

/// Whether a kernel notes in its local memory how far its work-items have come.
pub(crate) fn counts_in_local_memory(info: &KernelInfo) -> bool {
    let counts = |site: &Site| matches!(site.what, Checked::Barrier | Checked::End | Checked::Race { .. });
    info.signature.sites.iter().any(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::{info, with};
    use spirula_interface::program::ArgumentKind;

    fn object(base: u64, offset: u64) -> Bounds {
        Bounds { offset, ..Bounds::of_anything(base, offset) }
    }

    #[test]
    fn objects_within_others_are_not_told_apart() {
        let list = vec![object(500, 10), object(100, 50), object(100, 200), object(150, 20), object(300, 7)];
        assert_eq!(apart(list), [object(100, 200), object(300, 7), object(500, 10)]);
    }

    #[test]
    fn only_what_was_compiled_for_it_is_checked() {
        let plain = info("k", &[ArgumentKind::Buffer]);
        assert!(Checking::of(&plain, &Objects::default(), 0, &[]).unwrap().is_none());
        let checked = with(plain, |info| info.signature.take_hidden(HiddenKind::Checks));
        let checking = Checking::of(&checked, &Objects::default(), 100, &[]).unwrap().expect("it is checked");
        let words: Vec<u64> = checking
            .block
            .span()
            .to_vec()
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        // The block and its bounds of other memory, and those of the argument, of which nothing is known.
        assert_eq!(words[12..], [0, 0, u64::MAX, u64::MAX, 0, 0]);
        assert_eq!((words[1], words[3], words[4], words[7]), (0, 0, 128, PAGE as u64));
        let launch = Launch::whole(1, [0; 3], [1; 3], [1; 3]);
        assert!(checking.end(&checked, &launch, None).is_ok());
    }
}
