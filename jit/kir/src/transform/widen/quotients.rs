//! Widening: quotients that all lanes have in common. Where one id counts rows and columns, `id / n` and `id % n`, the lanes of a pack that
//! lies within a row have the same row, and columns that follow on each other. Each lane's own division shows nothing of that:
//! `a[row * n + i]` and `b[i * n + column]` would be gathers.
//!
//! So the body is written twice. In front of both, the first lane's id is divided, once for the pack; if the last one's is in the same
//! row, the pack goes through a version in which the quotient is that number, and the remainder counts up from the first lane's.

mod split;
#[cfg(test)]
mod tests;

use crate::analysis::{ControlFlow, LoopId, Loops};
use crate::transform::ContextKind;
use crate::{Block, Function};
use split::{How, Split};

/// Larger bodies are not written twice.
const MOST_COPIED: usize = 2_000;

/// A body in which packs that lie within rows go ways of their own.
pub(super) struct Quotients {
    /// With both ways, or with theirs only where all packs lie within rows.
    pub body: Function,
    /// With theirs only.
    pub straight: Function,
    /// The part of packs that goes there.
    pub share: f64,
    /// Whether remainders are compared with zero.
    pub asks_for_zero: bool,
}

impl Quotients {
    /// None if nothing is divided so, by all work-items or in a loop of them. Without `zeros`, packs whose first remainder is zero stay
    /// away, and comparisons with it are decided: rows are counted from one, as in `r = (i + 1) % n; if (r == 0) r = n`.
    pub fn new(body: &Function, context: &[ContextKind], lanes: u32, zeros: bool) -> Option<Quotients> {
        if body.insts().count() > MOST_COPIED {
            return None;
        }
        let loops = Loops::new(&ControlFlow::new(body))?;
        let loops = (0..loops.count()).map(|number| loops.get(LoopId(number)).header);
        let places = [Place::All].into_iter().chain(loops.map(Place::Loop));
        let mut found: Option<Quotients> = None;
        for place in places {
            let [both, straight] = found.as_ref().map_or([body; 2], |found| [&found.body, &found.straight]);
            let how = How { context, lanes, zeros };
            let Some(split) = Split::new(straight, place, how, false) else { continue };
            let both = Split::new(both, place, how, !split.tests.is_empty())?.finish();
            let (share, asked) =
                found.as_ref().map_or((1.0, false), |found| (found.share, found.asks_for_zero));
            let (share, asks_for_zero) = (split.share * share, asked || split.asks_for_zero);
            found = Some(Quotients { body: both, straight: split.body, share, asks_for_zero });
        }
        found
    }
}

/// What is written twice.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// All that work-items do.
    All,
    /// The iterations of the loop with this header, behind it.
    Loop(Block),
}
