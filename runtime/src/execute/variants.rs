//! Code for one local size of a kernel: compiled in the background once launches of that size have run for a while, which
//! meanwhile run the general code. It pays most where the general code's packs don't fit a group's rows (tiles of 8 x 8: 17
//! times as fast), and up to twice where they do and loops depend on the size (tiles of 16 x 16).

use crate::execute::arena::MAX_SCRATCH;
use crate::execute::launch::Code;
use crate::log;
use spirula_interface::program::{KernelInfo, Launch};
use std::fmt::{self, Debug, Display, Formatter};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Launches of one local size must have taken so long, by estimate, before code is made for it: about what a build takes.
const WORTH_BUILDING_NS: u64 = 50_000_000;
/// The same where packs fit rows, and less is to be won.
const WORTH_TRYING_NS: u64 = 4 * WORTH_BUILDING_NS;
/// Local sizes of a kernel that are watched; others run the general code.
const MAX_SIZES: usize = 8;

/// A kernel's code for one local size. Its scratch may be another than the general code's; what launches are checked for
/// is the same.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub code: Code,
    pub info: Arc<KernelInfo>,
}

/// Compiles a kernel for a local size. Errors: why it can't.
pub(crate) type Maker = Box<dyn Fn([u32; 3]) -> Result<Variant, String> + Send + Sync>;

/// What is known of one local size.
enum State {
    /// Launches took so many nanoseconds.
    Watched(u64),
    Building,
    Ready(Variant),
    /// There will be no code of its own.
    General,
}

/// A kernel's variants.
pub(crate) struct Specialized {
    make: Option<Maker>,
    sizes: Mutex<Vec<([u64; 3], State)>>,
}

impl Debug for Specialized {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("Specialized").finish_non_exhaustive()
    }
}

impl Specialized {
    /// Without a maker all launches run the general code.
    pub(crate) fn new(make: Option<Maker>) -> Arc<Specialized> {
        Arc::new(Specialized { make, sizes: Mutex::default() })
    }

    /// The variant for a launch that is expected to take so many nanoseconds, if there is one by now. May begin to make it.
    pub(crate) fn variant(
        self: &Arc<Specialized>,
        info: &Arc<KernelInfo>,
        launch: &Launch,
        expected_ns: u64,
    ) -> Option<Variant> {
        let row = launch.local_size[0];
        if self.make.is_none() || !info.code.sees_group || info.signature.required_work_group_size.is_some() {
            return None;
        }
        let fits = info.code.lanes < 2 || row < 2 || row.is_multiple_of(info.code.lanes.into());
        let worth = if fits { WORTH_TRYING_NS } else { WORTH_BUILDING_NS };
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sizes.iter().position(|(size, _)| *size == launch.local_size);
        if known.is_none() && sizes.len() == MAX_SIZES {
            return None;
        }
        let at = known.unwrap_or_else(|| {
            sizes.push((launch.local_size, State::Watched(0)));
            sizes.len() - 1
        });
        match &mut sizes[at].1 {
            State::Ready(variant) => return Some(variant.clone()),
            State::Watched(ns) if ns.saturating_add(expected_ns) < worth => *ns += expected_ns,
            state @ State::Watched(_) => {
                let local = launch.local_size.map(|size| size as u32);
                *state = if self.begin(info, local) { State::Building } else { State::General };
            }
            State::Building | State::General => {}
        }
        None
    }

    /// Makes a variant on a thread of its own. Whether there is one.
    fn begin(self: &Arc<Specialized>, info: &Arc<KernelInfo>, local: [u32; 3]) -> bool {
        let (this, general) = (self.clone(), info.clone());
        let work = move || {
            let state = this.make(&general, local).map_or(State::General, State::Ready);
            let mut sizes = this.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, old)) = sizes.iter_mut().find(|(size, _)| *size == local.map(u64::from)) {
                *old = state;
            }
        };
        let begun = std::thread::Builder::new().name("spirula-variant".into()).spawn(work);
        begun.inspect_err(|error| warn(info, local, error)).is_ok()
    }

    /// Makes a variant here, if it can be made.
    fn make(&self, general: &KernelInfo, local: [u32; 3]) -> Option<Variant> {
        let begun = Instant::now();
        let made = self.make.as_ref()?(local).and_then(|variant| {
            let right = is_same_launch(general, &variant.info, local);
            right.then_some(variant).ok_or_else(|| "it is called in another way than the general code".into())
        });
        match &made {
            Ok(_) => log::debug(format_args!(
                "kernel {}: code for work-groups of {local:?} in {:.1?}",
                general.signature.name,
                begun.elapsed()
            )),
            Err(error) => warn(general, local, error),
        }
        made.ok()
    }
}

fn warn(kernel: &KernelInfo, local: [u32; 3], why: &dyn Display) {
    log::warn(format_args!("kernel {}: no code for work-groups of {local:?}: {why}", kernel.signature.name));
}

/// Whether a launch that was checked for one may run the other.
fn is_same_launch(general: &KernelInfo, variant: &KernelInfo, local: [u32; 3]) -> bool {
    let items = local.iter().fold(1_u64, |all, &size| all.saturating_mul(size.into()));
    variant.signature == general.signature
        && variant.code.sub_group_size == general.code.sub_group_size
        && variant.code.static_local_size == general.code.static_local_size
        && variant.code.scratch_size(items) <= MAX_SCRATCH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::{empty, info, with};
    use std::time::Duration;

    fn launch(local_size: [u64; 3]) -> Launch {
        Launch::whole(3, [0; 3], local_size.map(|size| 10 * size), local_size)
    }

    fn wide(name: &str) -> Arc<KernelInfo> {
        Arc::new(with(info(name, &[]), |info| info.code.lanes = 16))
    }

    /// What a launch gets in the end.
    fn wait(specialized: &Arc<Specialized>, info: &Arc<KernelInfo>, launch: &Launch) -> Option<Variant> {
        (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            specialized.variant(info, launch, 0)
        })
    }

    #[test]
    fn sizes_get_code_after_a_while() {
        let general = wide("general");
        let made = |local: [u32; 3]| {
            let special = with(info("general", &[]), |info| info.code.symbol = "special".into());
            let made = || Variant { code: Code::native(empty), info: Arc::new(special) };
            (local == [8, 8, 1]).then(made).ok_or_else(|| "of the test".into())
        };
        let specialized = Specialized::new(Some(Box::new(made)));
        let odd = launch([8, 8, 1]);
        assert!(specialized.variant(&general, &odd, WORTH_BUILDING_NS - 1).is_none());
        assert!(matches!(specialized.sizes.lock().unwrap()[0].1, State::Watched(_)));
        assert!(specialized.variant(&general, &odd, 1).is_none());
        assert_eq!(wait(&specialized, &general, &odd).unwrap().info.code.symbol, "special");
        // Sizes that fit get it later, kernels that do not see their groups never, and only so many sizes are watched.
        assert!(specialized.variant(&general, &launch([32, 2, 1]), WORTH_TRYING_NS - 1).is_none());
        assert!(matches!(specialized.sizes.lock().unwrap()[1].1, State::Watched(_)));
        let blind = with((*general).clone(), |info| info.code.sees_group = false);
        assert!(specialized.variant(&Arc::new(blind), &launch([8, 4, 1]), u64::MAX).is_none());
        assert_eq!(specialized.sizes.lock().unwrap().len(), 2);
        for row in 2..16 {
            specialized.variant(&general, &launch([row, 1, 1]), 0);
        }
        assert_eq!(specialized.sizes.lock().unwrap().len(), MAX_SIZES);
    }

    #[test]
    fn what_can_not_be_made_or_is_another_kernel_is_not_used() {
        let general = wide("general");
        let other = || Arc::new(with(info("general", &[]), |info| info.code.static_local_size = 4096));
        let made = move |local: [u32; 3]| {
            let made = || Variant { code: Code::native(empty), info: other() };
            (local[0] == 4).then(made).ok_or_else(|| "of the test".into())
        };
        let specialized = Specialized::new(Some(Box::new(made)));
        for row in [4, 8] {
            let launch = launch([row, 1, 1]);
            assert!(specialized.variant(&general, &launch, WORTH_BUILDING_NS).is_none());
            let ended = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                let sizes = specialized.sizes.lock().unwrap();
                sizes.iter().any(|(size, state)| size[0] == row && matches!(state, State::General))
            });
            assert!(ended && specialized.variant(&general, &launch, 0).is_none());
        }
    }
}
