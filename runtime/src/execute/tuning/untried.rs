//! Which alternative is tried next, and which not at all.
//!
//! Of 430 kernels of public programs 8 in 100 ran at least 1.18 times as fast in scalar code as in the packs that were chosen, half of
//! these at least 1.7 times, and nearly as often whatever was thought of it: loops whose lanes leave them at different times, code that fills no
//! registers of packs. Fewer lanes were faster by as much as often, but by less. So scalar code comes before all packs but those that are thought to
//! be faster than the champion.
//!
//! Over the lanes of packs a kernel's time has one minimum, as a rule: more of them fill registers until there are none left. So who lost to
//! the champion speaks for those beyond it, and who won against those on the other side; behind one that was no worse, but gains too
//! little, the other side goes first. Scalar code is another kind of code, of which packs' times say nothing.
//!
//! Where the narrowest that was thought of wins, the estimates were wrong about what lies beyond as well: it is halved for as long as that pays.

use spirula_interface::program::Alternative;

/// Alternatives that are tried at most without gain; scalar code beside that many packs, for they say nothing of it. (Its loops may be vectors that packs
/// have nothing of: a matrix's row by a vector.)
const MOST_TRIED: usize = 3;
/// Of two on the same side of the champion the nearer one goes first, unless the other is thought to be so much faster.
const MUCH_FASTER: f64 = 0.9;

/// What is thought to take longer than so many percent waits no longer for it. Scalar code of which that is thought is the last: where groups are few and
/// long, two of them take that much longer before it is dropped.
const MOST_PERCENT: u32 = 400;
/// The same of scalar code beside packs, and of packs beside it.
const MOST_PERCENT_OF_OTHER_KIND: u32 = 150;

/// What is left to be tried.
#[derive(Debug)]
pub(super) struct Untried {
    left: Vec<Alternative>,
    tried: usize,
    /// Whether scalar code was among them.
    has_tried_scalar: bool,
}

/// Two that were compared: their lanes, and how long the challenger was thought to take, in percent of the champion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub champion: u32,
    pub challenger: u32,
    pub percent: u32,
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The challenger takes the champion's place.
    Won,
    /// It takes no longer, and gains too little to.
    NoWorse,
    Lost,
}

impl Untried {
    /// All of them, of which the likeliest come first.
    pub(super) fn new(alternatives: &[Alternative]) -> Untried {
        let mut left = alternatives.to_vec();
        left.sort_by_key(|other| match other.lanes {
            Some(1) if other.percent <= MOST_PERCENT => 1,
            _ if other.percent < 100 => 0,
            _ => 2,
        });
        Untried { left, tried: 0, has_tried_scalar: false }
    }

    /// The next one to be tried against a champion of so many lanes.
    pub(super) fn next(&self, champion: u32) -> Option<&Alternative> {
        self.place(champion).map(|place| &self.left[place])
    }

    /// How much longer than any alternative the next one waits, in percent: what is thought to be slower waits by the square of that. Of what
    /// scalar code and packs gain on each other estimates say least.
    pub(super) fn patience(&self, champion: u32) -> u64 {
        let Some(next) = self.next(champion) else { return 100 };
        let is_likely = next.percent <= MOST_PERCENT;
        let is_other_kind = is_likely && (next.lanes == Some(1)) != (champion == 1);
        let most = if is_other_kind { MOST_PERCENT_OF_OTHER_KIND } else { MOST_PERCENT };
        let percent = u64::from(next.percent.clamp(100, most));
        percent * percent / 100
    }

    /// The same; it is not left then.
    pub(super) fn take(&mut self, champion: u32) -> Option<Alternative> {
        let next = self.left.remove(self.place(champion)?);
        let is_scalar = next.lanes == Some(1);
        self.tried += usize::from(!is_scalar);
        self.has_tried_scalar |= is_scalar;
        if self.tried >= MOST_TRIED {
            self.left.retain(|other| other.lanes == Some(1));
        }
        Some(next)
    }

    /// Goes by what the two have shown. Beyond one that gains nothing there is seldom more than that, and the other side comes first.
    pub(super) fn learn(&mut self, Compared { champion, challenger, percent }: Compared, outcome: Outcome) {
        let is_wider = challenger > champion;
        let speaks_for = |other: &Alternative| match other.lanes {
            // (As many lanes in all regions, where the champion has fewer in some, are the farthest from who won.)
            Some(lanes @ 2..) if outcome == Outcome::Won => {
                lanes == champion || (lanes > champion) != is_wider
            }
            Some(lanes @ 2..) if challenger > 1 && outcome == Outcome::Lost => {
                (lanes > champion) == is_wider && f64::from(other.percent) > MUCH_FASTER * f64::from(percent)
            }
            _ => false,
        };
        self.left.retain(|other| !speaks_for(other));
        if outcome == Outcome::Won {
            self.tried = self.tried.saturating_sub(1);
        }
        if outcome == Outcome::Won && challenger < champion {
            self.halve(challenger);
        }
        if challenger > 1 && outcome == Outcome::NoWorse {
            let is_beyond = |other: &Alternative| {
                other.lanes.is_some_and(|lanes| lanes > 1 && (lanes > champion) == is_wider)
            };
            self.left.sort_by_key(is_beyond);
        }
    }

    /// Has half of these lanes tried, if nothing else is beyond them.
    fn halve(&mut self, lanes: u32) {
        let half = lanes / 2;
        let is_there =
            |other: &Alternative| other.lanes.is_some_and(|other| other < lanes && (other > 1 || half == 1));
        if half == 0 || half == 1 && self.has_tried_scalar || self.left.iter().any(is_there) {
            return;
        }
        self.left.insert(0, Alternative { lanes: Some(half), percent: 100 });
    }

    /// All that is left, the likeliest first.
    pub(super) fn left(&self) -> &[Alternative] {
        &self.left
    }

    fn place(&self, champion: u32) -> Option<usize> {
        let likeliest = self.left().first()?;
        if likeliest.lanes == Some(1) {
            return Some(0);
        }
        let distance =
            |other: &Alternative| other.lanes.filter(|lanes| *lanes > 1).map(|n| n.abs_diff(champion));
        let side = |other: &Alternative| other.lanes.is_some_and(|lanes| lanes > champion);
        let enough = f64::from(likeliest.percent) / MUCH_FASTER;
        let may_go_first = |other: &Alternative| {
            side(other) == side(likeliest)
                && f64::from(other.percent) <= enough
                && distance(other) < distance(likeliest)
        };
        let nearer = self
            .left
            .iter()
            .enumerate()
            .filter(|(_, other)| distance(other).is_some() && may_go_first(other));
        Some(nearer.min_by_key(|(_, other)| distance(other)).map_or(0, |(place, _)| place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untried(all: &[(u32, u32)]) -> Untried {
        let of = |&(lanes, percent)| Alternative { lanes: Some(lanes), percent };
        Untried::new(&all.iter().map(of).collect::<Vec<_>>())
    }

    /// In which order lanes are tried beside 16, if each takes as long as `time` says.
    fn order(all: &[(u32, u32)], time: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut untried = untried(all);
        let mut champion = 16;
        let next = || {
            let Alternative { lanes, percent } = untried.take(champion)?;
            let challenger = lanes?;
            let (now, then) = (time(challenger), time(champion));
            let outcome = match () {
                () if now < then => Outcome::Won,
                () if now == then => Outcome::NoWorse,
                () => Outcome::Lost,
            };
            untried.learn(Compared { champion, challenger, percent }, outcome);
            champion = if outcome == Outcome::Won { challenger } else { champion };
            Some(challenger)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn who_lost_speaks_for_those_beyond() {
        let all = [(64, 98), (32, 99), (8, 121)];
        assert_eq!(order(&all, |lanes| lanes), [32, 8, 4, 2, 1]);
        assert_eq!(order(&all, |lanes| lanes.abs_diff(16)), [32, 8]);
        assert_eq!(order(&all, |lanes| 100 - lanes), [32, 64], "not of those on the other side");
        // What is thought to be much faster goes first, and is not spoken for by the nearer one.
        let all = [(64, 70), (32, 93), (8, 121)];
        assert_eq!(order(&all, |lanes| lanes.abs_diff(16)), [64, 8]);
        assert_eq!(order(&all, |lanes| lanes.abs_diff(64)), [64, 32]);
        // Who is as fast as the champion may stand before a still better one, for which the other side does not wait.
        let all = [(8, 110), (4, 120), (32, 130)];
        assert_eq!(order(&all, |lanes| if lanes < 8 { 1 } else { 2 }), [8, 32, 4, 2]);
        let all = [(64, 90), (32, 93), (8, 121)];
        assert_eq!(order(&all, |lanes| if lanes < 16 { 1 } else { 2 }), [32, 8, 4]);
    }

    #[test]
    fn scalar_code_comes_behind_what_is_thought_to_be_faster_and_packs_say_nothing_of_it() {
        let all = [(64, 90), (32, 93), (8, 121), (1, 175)];
        assert_eq!(order(&all, |lanes| lanes.abs_diff(16)), [32, 1, 8]);
        assert_eq!(order(&all, |lanes| 100 - lanes), [32, 64, 1]);
        assert_eq!(order(&[(32, 100), (8, 121), (1, 400)], |lanes| lanes.abs_diff(16)), [1, 32, 8]);
    }

    #[test]
    fn slower_ones_wait_longer_but_not_those_of_which_little_is_known() {
        let patience = |champion: u32, other: (u32, u32)| untried(&[other]).patience(champion);
        assert_eq!(
            [(16, (32, 90)), (16, (8, 100)), (16, (8, 200))].map(|(of, other)| patience(of, other)),
            [100, 100, 400]
        );
        assert_eq!(
            [(16, (1, 120)), (16, (1, 300)), (1, (8, 400))].map(|(of, other)| patience(of, other)),
            [144, 225, 225]
        );
        assert_eq!([(16, (8, 900)), (16, (1, 900))].map(|(of, other)| patience(of, other)), [1600, 1600]);
        assert_eq!(order(&[(32, 100), (8, 121), (1, 900)], |lanes| lanes.abs_diff(16)), [32, 8, 1]);
    }

    #[test]
    fn scalar_code_speaks_for_nobody_on_its_own_side() {
        assert_eq!(order(&[(1, 90), (8, 110), (32, 110)], |lanes| 64 - lanes), [1, 8, 32]);
        assert_eq!(order(&[(1, 90), (8, 110), (32, 110)], |lanes| lanes), [1, 8]);
    }

    #[test]
    fn who_wins_where_nothing_else_was_thought_of_is_halved() {
        assert_eq!(order(&[(8, 198)], |lanes| lanes), [8, 4, 2, 1]);
        assert_eq!(order(&[(8, 198)], |lanes| lanes.abs_diff(4)), [8, 4, 2]);
        assert_eq!(order(&[(8, 198)], |lanes| 64 - lanes), [8]);
        assert_eq!(
            order(&[(8, 118), (16, 176), (4, 230)], |lanes| lanes),
            [8, 4, 2, 1],
            "nor is it all of 16 lanes"
        );
        assert_eq!(order(&[(1, 105), (8, 198)], |lanes| if lanes == 1 { 99 } else { lanes }), [1, 8, 4, 2]);
        assert_eq!(order(&[(32, 90)], |lanes| 64 - lanes), [32], "the other way registers are full");
    }

    #[test]
    fn not_all_are_tried() {
        let mut untried = untried(&[(2, 100), (4, 100), (8, 100), (32, 100)]);
        for _ in 0..MOST_TRIED {
            assert!(untried.next(16).is_some() && !untried.left().is_empty());
            untried.take(16);
        }
        assert_eq!((untried.next(16), untried.left()), (None, &[][..]));
        assert_eq!(
            order(&[(8, 100), (4, 110), (2, 120), (1, 190)], |lanes| if lanes == 1 { 99 } else { lanes }),
            [1, 8, 4, 2],
            "and scalar code"
        );
    }
}
