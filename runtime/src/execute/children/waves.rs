//! A kernel's work-groups in waves: between them, what they enqueued may begin, so that its slots are free again before the
//! queue is full.
//!
//! A first wave has as many work-items as there is room for children; later ones as many groups as would fill it, as far as
//! earlier groups tell, and at most four times the last one's, so that a kernel that enqueues little is soon run whole.

use crate::command::ndrange::{of_kernel, run_kernel};
use crate::context::Context;
use crate::error::Result;
use crate::execute::check::{Checking, Objects};
use crate::execute::launch::{self, Invocation};
use crate::platform::device::Device;
use spirula_interface::program::{HiddenKind, KernelInfo, Launch};
use std::collections::VecDeque;
use std::sync::Arc;

/// How much larger a wave may be than the last.
const GROWTH: u64 = 4;

/// What is left of a launch.
#[derive(Debug)]
pub(crate) struct Waves {
    info: Arc<KernelInfo>,
    /// Those that have not begun.
    parts: VecDeque<Arc<Invocation>>,
    /// The one that has, and its next group.
    current: Option<(Arc<Invocation>, u64)>,
    /// Groups of the last wave.
    last: u64,
    /// The most slots that a wave has taken for its groups.
    taken: Option<(u64, u64)>,
    /// What a checked kernel's groups are given from the first wave to the last, and the launch as it is told of.
    checking: Option<Box<(Checking, Launch)>>,
}

impl Waves {
    /// A launch of these parts.
    pub(crate) fn new(info: Arc<KernelInfo>, parts: impl IntoIterator<Item = Arc<Invocation>>) -> Waves {
        let parts = parts.into_iter().collect();
        Waves { info, parts, current: None, last: 0, taken: None, checking: None }
    }

    /// What a checked kernel may access besides its arguments.
    pub(super) fn objects(&self) -> Objects {
        let Some(part) = self.parts.front() else { return Objects::default() };
        Objects { arguments: Vec::new(), ..part.objects.clone() }
    }

    /// Gives the kernel the address of what it enqueues with.
    pub(super) fn set_parent(&mut self, address: u64) {
        if let Some(offset) = self.info.signature.hidden_offset(HiddenKind::Parent) {
            let put = |part| launch::prepare(part).arguments.put(offset as usize, &address.to_ne_bytes());
            self.parts.iter_mut().for_each(put);
        }
    }

    /// Runs the next groups, as many as may enqueue kernels where there are so many slots left. Whether there are more.
    pub(super) fn run(&mut self, device: &Device, context: &Context, room: u64) -> Result<bool> {
        let signature = &self.info.signature;
        // What is printed is told when the kernel has ended.
        if signature.hidden_offset(HiddenKind::Parent).is_none() || signature.printf.is_some() {
            run_kernel(device, &self.info, self.parts.drain(..), Some(context))?;
            return Ok(false);
        }
        self.begin_checks()?;
        let done = self.run_wave(device, room);
        if let Ok(true) = done {
            return done;
        }
        match self.checking.take() {
            Some(begun) => {
                let (checking, launch) = *begun;
                done.and(checking.end(&self.info, &launch, Some(context)).map(|()| false))
            }
            None => done,
        }
    }

    /// A checked kernel's parts are given what they check by before any of them begins.
    fn begin_checks(&mut self) -> Result<()> {
        let Some(first) = self.parts.front().filter(|_| self.current.is_none()) else { return Ok(()) };
        if self.checking.is_some() {
            return Ok(());
        }
        let Some(checking) = Checking::begin(&self.info, first)? else { return Ok(()) };
        let launch = first.launch;
        self.parts.iter_mut().for_each(|part| checking.give(&self.info, launch::prepare(part)));
        self.checking = Some(Box::new((checking, launch)));
        Ok(())
    }

    fn run_wave(&mut self, device: &Device, room: u64) -> Result<bool> {
        let begun = self.current.take().or_else(|| self.parts.pop_front().map(|part| (part, 0)));
        let Some((part, first)) = begun else { return Ok(false) };
        let (groups, items) = (part.groups(), part.group_items());
        self.last = self.size(items, room).min(groups - first);
        let end = first + self.last;
        let done = device.scheduler.run_groups(&part, first..end);
        done.map_err(|error| of_kernel(&self.info, &error))?;
        self.current = (end < groups).then_some((part, end));
        Ok(self.current.is_some() || !self.parts.is_empty())
    }

    /// Takes in how many slots the last wave's children have.
    pub(super) fn took(&mut self, slots: u64) {
        let is_more =
            self.taken.is_none_or(|(most, groups)| product(slots, groups) > product(most, self.last));
        if is_more {
            self.taken = Some((slots, self.last));
        }
    }

    /// Groups of the next wave, and at least one.
    fn size(&self, items: u64, room: u64) -> u64 {
        let size = match self.taken {
            None => room / items.max(1),
            Some((slots, groups)) => {
                let fitting = product(room, groups) / u128::from(slots.max(1));
                u64::try_from(fitting).unwrap_or(u64::MAX).min(self.last.saturating_mul(GROWTH))
            }
        };
        size.max(1)
    }
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::info;

    fn waves() -> Waves {
        Waves::new(Arc::new(info("k", &[])), [])
    }

    #[test]
    fn a_wave_fills_the_room_as_far_as_is_known() {
        let mut waves = waves();
        // Each work-item may enqueue one.
        assert_eq!((waves.size(64, 4096), waves.size(8192, 4096), waves.size(64, 0)), (64, 1, 1));
        let mut after = |groups, slots, room| {
            waves.last = groups;
            waves.took(slots);
            waves.size(64, room)
        };
        assert_eq!(after(64, 64, 2000), 256, "one for each group; at most four times as many groups");
        assert_eq!(after(256, 8 * 256, 2000), 250);
        assert_eq!(after(250, 0, 2000), 250, "the most that was seen counts");
        assert_eq!(after(250, 9 * 250, 0), 1);
    }

    #[test]
    fn who_enqueues_nothing_is_soon_run_whole() {
        let mut waves = waves();
        let mut sizes = Vec::new();
        for _ in 0..5 {
            waves.last = waves.size(64, 4096);
            waves.took(0);
            sizes.push(waves.last);
        }
        assert_eq!(sizes, [64, 256, 1024, 4096, 16384]);
    }
}
