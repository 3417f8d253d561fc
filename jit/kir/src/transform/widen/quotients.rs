//! Widening: quotients that all lanes have in common. Where one id counts rows and columns, `id / n` and `id % n`, the lanes of a pack that
//! lies within a row have the same row, and columns that follow on each other. Each lane's own division shows nothing of that:
//! `a[row * n + i]` and `b[i * n + column]` would be gathers.
//!
//! So the body is written twice. In front of both, the first lane's id is divided, once for the pack; if the last one's is in the same
//! row, the pack goes through a version in which the quotient is that number, and the remainder counts up from the first lane's. `split`
//! writes both; `guesses` finds what else packs may have in common.

mod guesses;
mod split;
#[cfg(test)]
mod tests;

use super::Facts;
use super::cost::{Assumed, cost_if};
use crate::analysis::{ControlFlow, LoopId, Loops, Shape};
use crate::transform::{ContextKind, Region};
use crate::{Block, Function, Op};
use spirula_interface::target::TargetFacts;
pub(in crate::transform) use split::{Divisor, divisor};
use split::{How, Split};

/// A second way through a body must make it so much faster: it takes as long to build as the first.
const TWO_WAYS_GAIN: f64 = 1.1;

/// Larger bodies are not written twice.
const MOST_COPIED: usize = 2_000;
/// Nor are more loops looked into: for each, the whole body is analysed.
const MOST_LOOPS: usize = 16;

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
    /// away, and comparisons with it are decided: rows are counted from one, as in `r = (i + 1) % n; if (r == 0) r = n`. With `guesses`,
    /// packs are also asked whether they have other values in common.
    fn new(body: &Function, how: How) -> Option<Quotients> {
        if body.insts().count() > MOST_COPIED {
            return None;
        }
        let loops = Loops::new(&ControlFlow::new(body))?;
        let loops = (0..loops.count().min(MOST_LOOPS)).map(|number| loops.get(LoopId(number)).header);
        let places = [Place::All].into_iter().chain(loops.map(Place::Loop));
        let mut found: Option<Quotients> = None;
        for place in places {
            let [both, straight] = found.as_ref().map_or([body; 2], |found| [&found.body, &found.straight]);
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

/// A region with ways of their own for packs that have a row, or more, in common, and which part of its time a pack takes then, if that is worth it.
pub(super) fn with_quotients(
    region: &Region,
    facts: &Facts,
    context: &[ContextKind],
    (lanes, target): (u32, &TargetFacts),
) -> Option<(Region, f64)> {
    let body = &region.body;
    let split = |zeros, guesses| Quotients::new(body, How { context, lanes, zeros, guesses });
    let guesses = if may_guess(body, facts) { &[false, true][..] } else { &[false] };
    let mut ways = Vec::new();
    for &guesses in guesses {
        let Some(with_zeros) = split(true, guesses) else { continue };
        let without_zeros = with_zeros.asks_for_zero.then(|| split(false, guesses)).flatten();
        ways.extend([Some(with_zeros), without_zeros].into_iter().flatten());
    }
    if ways.is_empty() {
        return None;
    }
    let time =
        |body: &Function, facts: &Facts| cost_if(Assumed::LoopsAlike, body, facts, context, (lanes, target));
    let anywhere = time(body, facts);
    let timed = |Quotients { body, straight, share, .. }| {
        let within = time(&straight, &Facts::new(&straight, context, lanes)?);
        Some((Region { body, ..region.clone() }, share * within / anywhere + (1.0 - share)))
    };
    let best = ways.into_iter().filter_map(timed).min_by(|(_, one), (_, other)| one.total_cmp(other));
    best.filter(|(_, part)| part * TWO_WAYS_GAIN < 1.0)
}

/// Whether something may come of what packs are asked: some access is to places that lie anywhere.
fn may_guess(body: &Function, facts: &Facts) -> bool {
    let is_apart = |block: Block, op: &Op| match op {
        Op::Load { pointer, .. } | Op::Store { pointer, .. } => {
            facts.shapes.shape_at(*pointer, block) == Shape::Varying
        }
        _ => false,
    };
    let mut blocks = facts.flow.reverse_post_order().iter();
    blocks.any(|&block| body.block(block).insts.iter().any(|&inst| is_apart(block, body.op(inst))))
}
