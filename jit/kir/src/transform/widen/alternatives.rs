//! Widening: what might have been chosen instead.
//!
//! The cost model is an estimate. Which of several numbers of lanes is the fastest can be measured, where a kernel runs long: this says
//! which are worth it.

use spirula_interface::program::Alternative;
use std::collections::HashSet;

/// What a region's lanes were chosen from.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    /// By the cost model.
    pub chosen: u32,
    /// Each number of lanes, how long a work-item takes then, and how long at best: if lanes happen to go the same ways, or, for scalar
    /// code, whose number is 1, if each pack waits for one of its lanes.
    pub of_each: Vec<(u32, f64, f64)>,
}

impl Estimates {
    /// Lanes that are made if so many are preferred.
    pub fn made(&self, preferred: Option<u32>) -> u32 {
        preferred.filter(|preferred| self.time(*preferred).is_some()).unwrap_or(self.chosen)
    }

    fn time(&self, lanes: u32) -> Option<[f64; 2]> {
        self.of_each.iter().find(|(other, ..)| *other == lanes).map(|&(_, time, together)| [time, together])
    }
}

/// What is thought to take longer, in percent of what is made, is not worth a try. Estimates are wrong by so much where loops stand behind
/// branches of which nobody knows how often they are taken: a random generator that makes its next 624 numbers when those are used up.
/// They are wrong by more where all lanes take one of several ways that the model lets them part on: what would be faster then is tried
/// last.
const MOST_PERCENT: f64 = 400.0;
/// Scalar code that would be faster at best is thought to take so long: how often a loop is gone through, and how differently, nobody
/// knows. A search that mostly ends soon goes on in packs until the last lane's has ended.
const MOST_PERCENT_OF_SCALAR: f64 = 200.0;

/// What differs in regions alone that take so little of the time is no other code: it would be found as fast, or, by chance, slower, which
/// would speak for those who differ in what counts.
const LEAST_PART: f64 = 0.1;

/// What else might be made of a kernel with these regions, where so many lanes are preferred; the likeliest first.
pub fn alternatives(regions: &[Estimates], preferred: Option<u32>) -> Vec<Alternative> {
    let made = |preferred: Option<u32>| -> Vec<u32> {
        regions.iter().map(|region| region.made(preferred)).collect()
    };
    let times = |lanes: &[u32]| -> [f64; 2] {
        let times = std::iter::zip(regions, lanes).map(|(region, lanes)| region.time(*lanes));
        times.map(|time| time.unwrap_or([f64::INFINITY; 2])).fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
    };
    let own = made(preferred);
    let [own_time, own_together] = times(&own);
    let differ = |made: &[u32]| {
        let parts = std::iter::zip(regions, std::iter::zip(&own, made)).filter(|(_, (a, b))| a != b);
        let time = |region: &Estimates, lanes| region.time(lanes).map_or(f64::INFINITY, |[time, _]| time);
        let part = parts.map(|(region, (&a, &b))| time(region, a).max(time(region, b))).sum::<f64>();
        part > LEAST_PART * own_time
    };
    // Packs are compared with packs whose lanes go together as well.
    let own_at_best = if own.iter().all(|lanes| *lanes == 1) { own_time } else { own_together };
    let mut seen = HashSet::new();
    let mut widths: Vec<u32> =
        regions.iter().flat_map(|region| region.of_each.iter().map(|(lanes, ..)| *lanes)).collect();
    widths.sort();
    widths.dedup();
    let all = [None].into_iter().chain(widths.into_iter().map(Some));
    let others = all.filter_map(|lanes| {
        let made = made(lanes);
        let [time, at_best] = times(&made);
        let (gains, most) = match lanes {
            Some(1) => (at_best < own_time, MOST_PERCENT_OF_SCALAR),
            _ => (at_best < own_at_best, MOST_PERCENT),
        };
        let percent = 100.0 * time / own_time;
        let percent = if gains { percent.min(most) } else { percent };
        let is_new = differ(&made) && seen.insert(made);
        // Scalar code is another kind of code, of which the model knows least: it is tried in any case.
        let is_tried = percent <= MOST_PERCENT || lanes == Some(1);
        (is_new && is_tried).then(|| Alternative { lanes, percent: percent.round() as u32 })
    });
    let mut others: Vec<Alternative> = others.collect();
    others.sort_by_key(|other| other.percent);
    others
}

/// The same in words, for the build log.
pub fn described(alternatives: &[Alternative]) -> Option<String> {
    let named = |other: &Alternative| match other.lanes {
        None => "as chosen".to_owned(),
        Some(1) => "scalar".to_owned(),
        Some(lanes) => format!("{lanes} lanes"),
    };
    let list: Vec<String> =
        alternatives.iter().map(|other| format!("{} ({} %)", named(other), other.percent)).collect();
    (!list.is_empty()).then(|| {
        format!("measured as well where it runs long, with the time by estimate: {}", list.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(chosen: u32, of_each: &[(u32, f64)]) -> Estimates {
        Estimates { chosen, of_each: of_each.iter().map(|&(lanes, time)| (lanes, time, time)).collect() }
    }

    fn found(regions: &[Estimates], preferred: Option<u32>) -> Vec<(Option<u32>, u32)> {
        alternatives(regions, preferred).into_iter().map(|other| (other.lanes, other.percent)).collect()
    }

    #[test]
    fn what_might_be_as_fast_is_an_alternative_and_the_code_itself_is_none() {
        let one = [region(16, &[(8, 1.5), (16, 1.0), (32, 0.9), (1, 4.5)])];
        assert_eq!(
            found(&one, None),
            [(Some(32), 90), (Some(8), 150), (Some(1), 450)],
            "scalar code in any case"
        );
        assert_eq!(found(&one, Some(32)), [(None, 111), (Some(8), 167), (Some(1), 500)]);
        assert_eq!(found(&one, Some(4)), found(&one, None), "nothing to be had");
    }

    #[test]
    fn what_would_be_faster_if_lanes_go_the_same_ways_is_one_too() {
        let one = |together| Estimates { chosen: 1, of_each: vec![(16, 9.0, together), (1, 1.0, 1.0)] };
        assert_eq!(found(&[one(0.5)], None), [(Some(16), 400)]);
        assert_eq!(found(&[one(1.5)], None), []);
    }

    #[test]
    fn so_is_scalar_code_that_would_be_if_packs_wait_for_single_lanes() {
        let one = |at_best| Estimates { chosen: 16, of_each: vec![(16, 1.0, 1.0), (1, 9.0, at_best)] };
        assert_eq!(found(&[one(0.6)], None), [(Some(1), 200)]);
        assert_eq!(found(&[one(9.0)], None), [(Some(1), 900)]);
    }

    #[test]
    fn regions_go_together_where_they_can() {
        // The second is scalar by the model, the third has fewer lanes to choose from.
        let all = [
            region(16, &[(8, 1.2), (16, 1.0), (1, 3.0)]),
            region(1, &[(8, 1.3), (16, 1.3), (1, 1.0)]),
            region(8, &[(8, 1.0), (1, 1.1)]),
        ];
        assert_eq!(found(&all, None), [(Some(16), 110), (Some(8), 117), (Some(1), 170)]);
        assert_eq!(all.each_ref().map(|region| region.made(Some(16))), [16, 16, 8]);
        // 8 lanes are what is made in the end.
        let same = [region(8, &[(8, 1.0), (1, 5.0)]), region(8, &[(8, 1.0), (1, 5.0)])];
        assert_eq!(found(&same, None), [(Some(1), 500)]);
        assert_eq!(found(&[], None), []);
    }

    #[test]
    fn what_differs_where_no_time_is_spent_is_none() {
        // A table is copied to local memory, and a loop looks things up in it, of which packs would be as fast by the model.
        let copy = region(64, &[(8, 1.6), (16, 1.3), (32, 1.1), (64, 1.0), (1, 30.0)]);
        let loop_ = region(1, &[(8, 1005.0), (16, 1010.0), (1, 1000.0)]);
        assert_eq!(found(&[copy, loop_], None), [(Some(8), 101), (Some(16), 101)]);
    }

    #[test]
    fn the_log_names_them() {
        let one = [region(16, &[(8, 1.5), (16, 1.0), (1, 1.9)])];
        let text = described(&alternatives(&one, None)).unwrap();
        assert!(text.ends_with("8 lanes (150 %), scalar (190 %)"), "{text}");
        assert_eq!(described(&[]), None);
    }
}
