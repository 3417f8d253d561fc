//! Which of two codes of a kernel is faster, from times that were measured in turns.
//!
//! Each thread runs real work-groups in one code for a while and then in the other: a pair of turns, whose order is drawn by lot. What
//! changes slowly, as the groups' work or a processor's clock, is the same in both turns, and what changes with the launches' own rhythm
//! comes as often before as behind. The ratios of many pairs decide by their median: what disturbs a few of them has no say.

/// A turn takes so long at least.
pub(super) const TURN_NS: u64 = 400_000;

/// The challenger must take so much less: it has other code and other caches to fill, and nobody gains by a change for nothing.
const WORTHWHILE: f64 = 0.96;

/// A challenger whose first pairs are all that bad is dropped at once; what is worse than any code says that the groups differ, of which
/// one may have all of the work, and not the codes.
const HOPELESS: std::ops::Range<f64> = 1.5..64.0;
const HOPELESS_PAIRS: usize = 2;

/// After so many pairs it is looked who has won; after the last one nobody knows, and all stays as it is.
const LOOKS: [usize; 6] = [9, 16, 25, 36, 49, 64];

/// The two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What is run so far.
    Champion,
    Challenger,
}

/// What the ratios say: the challenger's time against the champion's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Open,
    Won,
    Lost,
}

/// Decides by the ratios so far.
pub(super) fn verdict(ratios: &[f64]) -> Verdict {
    let count = ratios.len();
    if count >= HOPELESS_PAIRS && ratios.iter().all(|ratio| HOPELESS.contains(ratio)) {
        return Verdict::Lost;
    }
    if !LOOKS.contains(&count) {
        return Verdict::Open;
    }
    let sorted = sorted(ratios);
    // Between these two the true median lies with a probability of 98 %: 2.4 standard deviations of the number of ratios below it.
    let off = (1.2 * (count as f64).sqrt()).ceil() as usize;
    let (least, most) = (sorted[(count / 2).saturating_sub(off)], sorted[(count / 2 + off).min(count - 1)]);
    if most < WORTHWHILE {
        Verdict::Won
    } else if least > WORTHWHILE || Some(&count) == LOOKS.last() {
        Verdict::Lost
    } else {
        Verdict::Open
    }
}

fn sorted(ratios: &[f64]) -> Vec<f64> {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A champion, a challenger, and what was measured of them.
#[derive(Debug)]
pub(super) struct Contest {
    turn_ns: u64,
    ratios: Vec<f64>,
    /// The pair that each thread is at.
    seats: Vec<Pair>,
    lots: u64,
}

/// Two turns of a thread.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: Side,
    /// Work-items and nanoseconds of each.
    turns: [(u64, u64); 2],
    /// How many have ended.
    ended: usize,
}

impl Pair {
    /// Whose turn it is.
    fn side(&self) -> Side {
        match (self.first, self.ended) {
            (side, 0) => side,
            (Side::Champion, _) => Side::Challenger,
            (Side::Challenger, _) => Side::Champion,
        }
    }

    /// The challenger's time against the champion's.
    fn ratio(&self) -> f64 {
        let [first, second] = self.turns.map(|(items, ns)| ns.max(1) as f64 / items.max(1) as f64);
        if self.first == Side::Challenger { first / second } else { second / first }
    }
}

impl Contest {
    /// Between two that nothing is known of, in turns of that length.
    pub(super) fn new(turn_ns: u64) -> Contest {
        Contest { turn_ns, ratios: Vec::new(), seats: Vec::new(), lots: 0x9e37_79b9_7f4a_7c15 }
    }

    /// What that thread is to run.
    pub(super) fn turn(&mut self, seat: usize) -> Side {
        self.seat(seat).side()
    }

    /// That thread ran so many work-items in that code.
    pub(super) fn record(&mut self, seat: usize, side: Side, items: u64, ns: u64) {
        let turn_ns = self.turn_ns;
        let pair = self.seat(seat);
        // Another launch on the same thread may have ended the turn.
        if pair.side() != side {
            return;
        }
        let turn = &mut pair.turns[pair.ended];
        *turn = (turn.0.saturating_add(items), turn.1.saturating_add(ns));
        if turn.1 < turn_ns {
            return;
        }
        pair.ended += 1;
        if pair.ended == pair.turns.len() {
            let ratio = pair.ratio();
            let next = self.pair();
            self.seats[seat] = next;
            self.ratios.push(ratio);
        }
    }

    /// All ratios so far.
    pub(super) fn ratios(&self) -> &[f64] {
        &self.ratios
    }

    /// The one in the middle.
    pub(super) fn median(&self) -> Option<f64> {
        sorted(&self.ratios).get(self.ratios.len() / 2).copied()
    }

    fn seat(&mut self, seat: usize) -> &mut Pair {
        while self.seats.len() <= seat {
            let pair = self.pair();
            self.seats.push(pair);
        }
        &mut self.seats[seat]
    }

    /// A new pair, by lot (xorshift).
    fn pair(&mut self) -> Pair {
        for shift in [13_i32, -7, 17] {
            let moved = if shift > 0 { self.lots << shift } else { self.lots >> -shift };
            self.lots ^= moved;
        }
        let first = if self.lots >> 63 == 0 { Side::Champion } else { Side::Challenger };
        Pair { first, turns: [(0, 0); 2], ended: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays with made-up times of a work-item: for a side, and for how many turns the thread has had.
    fn play(time: impl Fn(Side, u64) -> u64) -> (Verdict, usize) {
        let mut contest = Contest::new(1000);
        for turn in 0.. {
            let side = contest.turn(0);
            contest.record(0, side, 10, 10 * time(side, turn));
            let verdict = verdict(contest.ratios());
            if verdict != Verdict::Open {
                return (verdict, contest.ratios().len());
            }
        }
        unreachable!("an end is sure")
    }

    fn of(side: Side, champion: u64, challenger: u64) -> u64 {
        if side == Side::Champion { champion } else { challenger }
    }

    /// A number below `most` that looks drawn.
    fn noise(turn: u64, most: u64) -> u64 {
        (turn + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) % 1_000_003 % most
    }

    #[test]
    fn the_faster_one_wins_soon_and_the_slower_one_is_dropped_at_once() {
        assert_eq!(play(|side, _| of(side, 1000, 800)), (Verdict::Won, 9));
        assert_eq!(play(|side, _| of(side, 1000, 1100)), (Verdict::Lost, 9));
        assert_eq!(play(|side, _| of(side, 1000, 1600)), (Verdict::Lost, HOPELESS_PAIRS));
        assert_eq!(play(|side, _| of(side, 1000, 980)).0, Verdict::Lost, "not worthwhile");
    }

    #[test]
    fn groups_that_have_all_of_the_work_say_nothing_of_the_codes() {
        // The code that comes to the group with the work is the slower one, by lot.
        assert_eq!(verdict(&[760.0, 182.0]), Verdict::Open);
        assert_eq!(verdict(&[2.0, 60.0]), Verdict::Lost, "a code may be that slow");
    }

    #[test]
    fn noise_changes_nothing() {
        let noisy = |champion, challenger| {
            play(move |side, turn| of(side, champion, challenger) + noise(turn, 600)).0
        };
        assert_eq!(noisy(1000, 1000), Verdict::Lost);
        assert_eq!(noisy(1000, 1030), Verdict::Lost);
        assert_eq!(noisy(1000, 700), Verdict::Won, "but a large gain is seen through it");
        // One turn in eight is held up.
        let held_up = |challenger| {
            play(move |side, turn| of(side, 1000, challenger) + if noise(turn, 8) == 0 { 9000 } else { 0 }).0
        };
        assert_eq!([1000, 800].map(held_up), [Verdict::Lost, Verdict::Won]);
    }

    #[test]
    fn work_that_changes_is_no_gain() {
        // Ever less, as where groups are rows of a triangle; and more and less in turns, as where two launches alternate.
        for challenger in [1000, 1040] {
            assert_eq!(play(|side, turn| of(side, 1000, challenger) * 100 / (100 + turn)).0, Verdict::Lost);
            let rhythm = |side, turn| of(side, 1000, challenger) * (1 + turn % 2);
            assert_eq!(play(rhythm).0, Verdict::Lost);
        }
        assert_eq!(play(|side, turn| of(side, 1000, 700) * 100 / (100 + turn)).0, Verdict::Won);
    }

    #[test]
    fn threads_have_pairs_of_their_own_and_a_late_chunk_counts_for_nobody() {
        let mut contest = Contest::new(1000);
        let sides = [0, 5].map(|seat| contest.turn(seat));
        let other = |side| if side == Side::Champion { Side::Challenger } else { Side::Champion };
        contest.record(0, other(sides[0]), 1, 1000);
        assert_eq!(contest.turn(0), sides[0], "not its turn");
        // In two chunks, of which one alone is no turn.
        contest.record(0, sides[0], 3, 300);
        assert_eq!(contest.turn(0), sides[0]);
        contest.record(0, sides[0], 7, 700);
        assert_eq!((contest.turn(0), contest.turn(5)), (other(sides[0]), sides[1]));
        contest.record(0, other(sides[0]), 10, 2000);
        let ratio = if sides[0] == Side::Champion { 2.0 } else { 0.5 };
        assert_eq!((contest.ratios(), contest.median()), (&[ratio][..], Some(ratio)));
        let firsts: Vec<Side> = (0..64).map(|seat| contest.turn(seat)).collect();
        let champions = firsts.iter().filter(|side| **side == Side::Champion).count();
        assert!((16..48).contains(&champions), "{champions} of 64");
    }
}
