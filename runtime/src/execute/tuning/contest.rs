//! Which of two codes of a kernel is faster, from times that were measured in turns.
//!
//! Each thread runs real work-groups in one code for a while and then in the other: a pair of turns, whose order is drawn by lot. What
//! changes slowly, as the groups' work or a processor's clock, is the same in both turns, and what changes with the launches' own rhythm
//! comes as often before as behind. The ratios of many pairs decide by their median: what disturbs a few of them has no say.
//!
//! Pairs weigh what they took. Where some work-groups take many times as long as others it's those that a launch waits for, however many
//! of the others there are. (Parboil's histo: most ranges of bins are only looked for, which packs do best, and the few that the picture
//! has are counted by atomics.) Times are a processor's, so that what was held up is no heavier for that.

/// A turn takes so long at least.
pub(super) const TURN_NS: u64 = 400_000;

/// The challenger must take so much less: it has other code and other caches to fill, and nobody gains by a change for nothing.
const WORTHWHILE: f64 = 0.96;

/// A challenger whose first pairs are all that bad is dropped at once.
const HOPELESS: f64 = 1.5;
const HOPELESS_PAIRS: usize = 2;

/// Nothing is decided before the pairs have run as many work-items as a launch has, or have taken so long: which work-groups take long is
/// seen where all were met.
const SEEN_NS: u64 = 40_000_000;

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

/// What a pair of turns tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The challenger's time against the champion's, for as many work-items.
    ratio: f64,
    /// Nanoseconds of both turns.
    weight: f64,
}

/// Decides by the pairs of work-groups that stand for a launch.
fn verdict(pairs: &[Outcome]) -> Verdict {
    let count = pairs.len();
    if count >= HOPELESS_PAIRS && pairs.iter().all(|pair| pair.ratio > HOPELESS) {
        return Verdict::Lost;
    }
    if !LOOKS.contains(&count) {
        return Verdict::Open;
    }
    let sorted = Sorted::new(pairs);
    // Between these two the true median lies with a probability of 98 %: 2.4 standard deviations of the share of ratios below it.
    let off = 1.2 / sorted.effective_count().sqrt();
    let (least, most) = (sorted.quantile(0.5 - off), sorted.quantile(0.5 + off));
    if most < WORTHWHILE {
        Verdict::Won
    } else if least > WORTHWHILE || Some(&count) == LOOKS.last() {
        Verdict::Lost
    } else {
        Verdict::Open
    }
}

/// Pairs by their ratios; at least one.
struct Sorted(Vec<Outcome>);

impl Sorted {
    fn new(pairs: &[Outcome]) -> Sorted {
        let mut sorted = pairs.to_vec();
        sorted.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        Sorted(sorted)
    }

    /// The ratio up to which the pairs have that share of all weight; the least or the greatest one beyond 0 and 1.
    fn quantile(&self, share: f64) -> f64 {
        let below = share * self.0.iter().map(|pair| pair.weight).sum::<f64>();
        let mut sum = 0.0;
        let reached = self.0.iter().find(|pair| {
            sum += pair.weight;
            sum >= below
        });
        reached.or(self.0.last()).map_or(1.0, |pair| pair.ratio)
    }

    /// How many pairs of the same weight would tell as much (L. Kish, "Survey Sampling", 1965).
    fn effective_count(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|pair| pair.weight).sum();
        sum * sum / self.0.iter().map(|pair| pair.weight * pair.weight).sum::<f64>()
    }
}

/// A champion, a challenger, and what was measured of them.
#[derive(Debug)]
pub(super) struct Contest {
    turn_ns: u64,
    pairs: Vec<Outcome>,
    /// Work-items and nanoseconds of all turns.
    ran: Chunk,
    /// Work-items of the longest launch.
    launch_items: u64,
    /// The pair that each thread is at.
    seats: Vec<Pair>,
    lots: u64,
}

/// What a thread ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunk {
    pub items: u64,
    /// Of a processor's time.
    pub ns: u64,
}

impl Chunk {
    fn add(&mut self, other: Chunk) {
        self.items = self.items.saturating_add(other.items);
        self.ns = self.ns.saturating_add(other.ns);
    }

    fn ns_per_item(self) -> f64 {
        self.ns.max(1) as f64 / self.items.max(1) as f64
    }
}

/// Two turns of a thread.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: Side,
    turns: [Chunk; 2],
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

    /// What it tells, once both have ended.
    fn outcome(&self) -> Outcome {
        let [first, second] = self.turns.map(Chunk::ns_per_item);
        let ratio = if self.first == Side::Challenger { first / second } else { second / first };
        Outcome { ratio, weight: self.turns.iter().map(|turn| turn.ns as f64).sum::<f64>().max(1.0) }
    }
}

impl Contest {
    /// Between two that nothing is known of, in turns of that length.
    pub(super) fn new(turn_ns: u64) -> Contest {
        Contest {
            turn_ns,
            pairs: Vec::new(),
            ran: Chunk::default(),
            launch_items: 0,
            seats: Vec::new(),
            lots: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// What that thread is to run.
    pub(super) fn turn(&mut self, seat: usize) -> Side {
        self.seat(seat).side()
    }

    /// That thread ran that in that code, of a launch of so many work-items.
    pub(super) fn record(&mut self, seat: usize, side: Side, chunk: Chunk, launch_items: u64) {
        let turn_ns = self.turn_ns;
        let pair = self.seat(seat);
        // Another launch on the same thread may have ended the turn.
        if pair.side() != side {
            return;
        }
        let turn = &mut pair.turns[pair.ended];
        turn.add(chunk);
        if turn.ns >= turn_ns {
            pair.ended += 1;
        }
        let ended = (pair.ended == pair.turns.len()).then(|| pair.outcome());
        self.ran.add(chunk);
        self.launch_items = self.launch_items.max(launch_items);
        if let Some(outcome) = ended {
            let next = self.pair();
            self.seats[seat] = next;
            self.pairs.push(outcome);
        }
    }

    /// What the pairs say so far.
    pub(super) fn verdict(&self) -> Verdict {
        let has_seen_all = self.ran.items >= self.launch_items || self.ran.ns >= SEEN_NS;
        if has_seen_all || Some(&self.pairs.len()) == LOOKS.last() {
            verdict(&self.pairs)
        } else {
            Verdict::Open
        }
    }

    /// All that have ended.
    pub(super) fn pairs(&self) -> &[Outcome] {
        &self.pairs
    }

    /// The ratio in the middle: half of the time was spent in pairs of less.
    pub(super) fn median(&self) -> Option<f64> {
        (!self.pairs.is_empty()).then(|| Sorted::new(&self.pairs).quantile(0.5))
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
        Pair { first, turns: [Chunk::default(); 2], ended: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays with made-up times of a work-item: for a side, and for how many turns the thread has had.
    fn play(time: impl Fn(Side, u64) -> u64) -> (Verdict, usize) {
        play_launches(20, time)
    }

    /// The same of launches of so many work-items.
    fn play_launches(launch_items: u64, time: impl Fn(Side, u64) -> u64) -> (Verdict, usize) {
        let mut contest = Contest::new(1000);
        for turn in 0.. {
            let side = contest.turn(0);
            contest.record(0, side, Chunk { items: 10, ns: 10 * time(side, turn) }, launch_items);
            let verdict = contest.verdict();
            if verdict != Verdict::Open {
                return (verdict, contest.pairs().len());
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
    fn the_groups_that_take_long_decide() {
        // Nine of ten stretches of groups are done in no time, and faster yet by the challenger, which takes twice as long for the tenth.
        let rare = |light: u64, heavy: u64| {
            let stretches = move |side, turn: u64| match (turn / 6) % 10 {
                0 => of(side, 20_000, heavy),
                _ => of(side, 100, light),
            };
            play_launches(600, stretches).0
        };
        assert_eq!(rare(50, 40_000), Verdict::Lost);
        assert_eq!(rare(140, 10_000), Verdict::Won);
    }

    #[test]
    fn threads_have_pairs_of_their_own_and_a_late_chunk_counts_for_nobody() {
        let mut contest = Contest::new(1000);
        let sides = [0, 5].map(|seat| contest.turn(seat));
        let other = |side| if side == Side::Champion { Side::Challenger } else { Side::Champion };
        contest.record(0, other(sides[0]), Chunk { items: 1, ns: 1000 }, 1);
        assert_eq!(contest.turn(0), sides[0], "not its turn");
        // In two chunks, of which one alone is no turn.
        contest.record(0, sides[0], Chunk { items: 3, ns: 300 }, 1);
        assert_eq!(contest.turn(0), sides[0]);
        contest.record(0, sides[0], Chunk { items: 7, ns: 700 }, 1);
        assert_eq!((contest.turn(0), contest.turn(5)), (other(sides[0]), sides[1]));
        contest.record(0, other(sides[0]), Chunk { items: 10, ns: 2000 }, 1);
        let ratio = if sides[0] == Side::Champion { 2.0 } else { 0.5 };
        assert_eq!(
            (contest.pairs(), contest.median()),
            (&[Outcome { ratio, weight: 3000.0 }][..], Some(ratio))
        );
        let firsts: Vec<Side> = (0..64).map(|seat| contest.turn(seat)).collect();
        let champions = firsts.iter().filter(|side| **side == Side::Champion).count();
        assert!((16..48).contains(&champions), "{champions} of 64");
    }
}
