//! Which values are no larger than others: loops that count until a number is reached end there only if they can't step over it.

use super::state::{Known, half};
use super::value::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is known of values by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// A value is what a mask leaves of another one, which is not negative.
    masked: BTreeMap<u64, (u64, i64)>,
    /// What a mask leaves of a value is not zero.
    nonzero: BTreeSet<(u64, i64)>,
    /// The first value is at most the second one and so much.
    at_most: BTreeMap<(u64, u64), i64>,
    /// Both values together are at most so much; in both orders.
    together: BTreeMap<(u64, u64), i64>,
    /// Values that are less than what stood there before.
    falling: BTreeSet<u64>,
}

/// Larger distances are of no use.
const FAR: i64 = 1 << 33;

/// Values by their names.
pub type Named = HashMap<u64, Known>;

impl Facts {
    /// The name is given to something new.
    pub fn forget(&mut self, name: u64) {
        self.masked.retain(|of, (source, _)| *of != name && *source != name);
        self.nonzero.retain(|(of, _)| *of != name);
        self.at_most.retain(|(a, b), _| *a != name && *b != name);
        self.together.retain(|(a, b), _| *a != name && *b != name);
        self.falling.remove(&name);
    }

    /// What had the one name has the other, which nothing else has.
    pub fn rename(&mut self, name: u64, new: u64) {
        let renamed = |of: u64| if of == name { new } else { of };
        self.masked = (self.masked.iter())
            .map(|(of, (source, mask))| (renamed(*of), (renamed(*source), *mask)))
            .collect();
        self.nonzero = self.nonzero.iter().map(|(of, mask)| (renamed(*of), *mask)).collect();
        for pairs in [&mut self.at_most, &mut self.together] {
            *pairs = pairs.iter().map(|((a, b), most)| ((renamed(*a), renamed(*b)), *most)).collect();
        }
        self.falling = self.falling.iter().map(|of| renamed(*of)).collect();
    }

    /// `name` is what `mask` leaves of `source`: that ends in zeros, or takes the sign of 32 bits away.
    pub fn mask(&mut self, name: u64, source: Known, mask: i64) {
        let is_of_use = mask.trailing_zeros() > 0 || mask == i32::MAX.into();
        if is_of_use
            && name != 0
            && source.name != 0
            && name != source.name
            && source.value.is_within(0, i64::MAX)
        {
            self.masked.insert(name, (source.name, mask));
        }
    }

    pub fn is_nonzero(&mut self, name: u64, mask: i64) {
        if name != 0 {
            self.nonzero.insert((name, mask));
        }
    }

    /// `sum` is a value and a number.
    pub fn add(&mut self, sum: u64, of: u64, number: i64) {
        if sum == of || of == 0 || sum == 0 {
            return;
        }
        let new = self.at_most.iter().filter_map(|(&(a, b), c)| match (a == of, b == of) {
            (true, false) => Some(((sum, b), c.saturating_add(number))),
            (false, true) => Some(((a, sum), c.saturating_sub(number))),
            _ => None,
        });
        let new: Vec<_> = new.collect();
        self.at_most.extend(new);
        let others = self.together.range((of, 0)..=(of, u64::MAX)).filter(|((_, other), _)| *other != sum);
        let new: Vec<_> = others.map(|((_, other), most)| (*other, most.saturating_add(number))).collect();
        for (other, most) in new {
            self.put_together(sum, other, most);
        }
        if number < 0 {
            self.falling.insert(sum);
        }
    }

    fn put_together(&mut self, a: u64, b: u64, most: i64) {
        self.together.extend([((a, b), most), ((b, a), most)]);
    }

    /// What is left of a value: those names, and what they are at least.
    pub fn left_of(&self, source: Known) -> Vec<(u64, i64)> {
        let Value { low, high, .. } = source.value;
        // Of the value itself, and of what it was left of by a mask with more bits.
        let also = self.masked.get(&source.name);
        let left = self.masked.iter().filter(|(name, (of, mask))| {
            let is_part = |(whole, more): &(u64, i64)| of == whole && mask & more == *mask;
            *of == source.name || **name != source.name && also.is_some_and(is_part)
        });
        let rounds = |mask: i64| {
            let below = (1_i64 << mask.trailing_zeros().min(62)) - 1;
            let all = if high <= 0 { 0 } else { i64::MAX >> (high.leading_zeros() - 1) };
            ((mask | below) & all == all).then_some(!below)
        };
        left.filter_map(|(name, (_, mask))| Some((*name, low.max(0) & rounds(*mask)?))).collect()
    }

    /// By how much the first value is above the second at most, as far as is known.
    pub fn distance(&self, a: Known, b: Known) -> Option<i64> {
        let told = self.at_most.get(&(a.name, b.name)).copied();
        let seen = match a.value.is_number() && b.value.is_number() {
            true => a.value.high.checked_sub(b.value.low),
            false => None,
        };
        let by_masks = match (self.masked.get(&a.name), self.masked.get(&b.name)) {
            (Some((source, _)), _) if *source == b.name => Some(0),
            (Some((source, mask)), Some((also, other))) if source == also && mask & other == *mask => {
                // The second has bits besides, of which some are set.
                let besides = |(of, bits): &&(u64, i64)| of == source && bits & other & !mask == *bits;
                let least = self.nonzero.iter().filter(besides).map(|(_, bits)| bits & bits.wrapping_neg());
                Some(-least.max().unwrap_or(0))
            }
            _ => None,
        };
        [told, seen, by_masks].into_iter().flatten().min()
    }

    /// What two values are together at most, as far as is known.
    fn sum(&self, a: Known, b: Known) -> Option<i64> {
        let told = self.together.get(&(a.name, b.name)).copied();
        let is_number = a.value.is_number() && b.value.is_number();
        let seen = is_number.then(|| a.value.high.checked_add(b.value.high)).flatten();
        told.into_iter().chain(seen).min()
    }

    /// Two values differ: the first can't be above the second by what was left, if it may not be above it at all.
    pub fn differ(&mut self, a: Known, b: Known) -> Option<i64> {
        let distance = self.distance(a, b).filter(|distance| *distance <= 0 && a.name != 0 && b.name != 0)?;
        let step = 1 << a.zeros().min(b.zeros()).min(32);
        let distance = if distance == 0 { -step } else { distance };
        self.at_most.insert((a.name, b.name), distance);
        Some(distance)
    }

    /// What holds on both ways to a place where values meet; names are given to those that differ.
    pub fn join(ways: [(&Facts, &Named); 2], met: &[(u64, [Known; 2])], is_loop: bool) -> Facts {
        let [(a, named_a), (b, named_b)] = ways;
        // What was known of a name that is given now was of another value.
        let given: BTreeSet<u64> = met.iter().flat_map(|(name, _)| [*name, half(*name)]).collect();
        let is_known =
            |name: &u64| named_a.contains_key(name) && named_b.contains_key(name) && !given.contains(name);
        let masked = a.masked.iter().filter(|(name, how)| {
            is_known(name) && !given.contains(&how.0) && b.masked.get(name) == Some(how)
        });
        let nonzero = a.nonzero.intersection(&b.nonzero).filter(|(name, _)| !given.contains(name));
        let mut facts = Facts {
            masked: masked.map(|(name, how)| (*name, *how)).collect(),
            nonzero: nonzero.copied().collect(),
            ..Facts::default()
        };
        for &(one, other) in a.together.keys().filter(|(one, other)| is_known(one) && is_known(other)) {
            if let Some(most) = b.together.get(&(one, other)) {
                let sums = [Some(a.together[&(one, other)]), Some(*most)];
                facts.put_sum((one, other), sums, (a, is_loop));
            }
        }
        for &(of, than) in a.at_most.keys().chain(b.at_most.keys()) {
            if is_known(&of) && is_known(&than) {
                let distances = ways.map(|(facts, named)| facts.distance(named[&of], named[&than]));
                facts.put((of, than), distances, (a, is_loop), FAR);
            }
        }
        let others = [a, b].map(|facts| {
            let masked = facts.masked.iter().flat_map(|(name, (source, _))| [*name, *source]);
            masked.chain(facts.at_most.keys().map(|(_, than)| *than))
        });
        let others: BTreeSet<u64> = others.into_iter().flatten().filter(is_known).collect();
        for (name, [one, other]) in met {
            for than in others.iter().filter(|than| *than != name) {
                let distances = [a.distance(*one, named_a[than]), b.distance(*other, named_b[than])];
                facts.put((*name, *than), distances, (a, is_loop), 0);
            }
        }
        // Counters that go up to zero beside others.
        let counts = |known: &Known| known.value.is_within(i32::MIN.into(), 0);
        for (than, [c, d]) in met.iter().filter(|(_, both)| both.iter().all(counts)) {
            for (name, [one, other]) in met.iter().filter(|(name, _)| name != than) {
                let distances = [a.distance(*one, *c), b.distance(*other, *d)];
                facts.put((*name, *than), distances, (a, is_loop), FAR);
            }
        }
        // Counters that go down to zero beside others that go up.
        let falls = |known: &Known| a.falling.contains(&known.name) || b.falling.contains(&known.name);
        let counts = |known: &Known| known.value.is_within(0, i32::MAX.into());
        let down = met.iter().filter(|(_, both)| both.iter().all(counts) && both.iter().any(falls));
        for (than, [c, d]) in down {
            for (name, [one, other]) in met.iter().filter(|(name, _)| name != than) {
                let sums = [a.sum(*one, *c), b.sum(*other, *d)];
                facts.put_sum((*name, *than), sums, (a, is_loop));
            }
        }
        facts
    }

    fn put_sum(&mut self, key: (u64, u64), sums: [Option<i64>; 2], (old, is_loop): (&Facts, bool)) {
        let [Some(a), Some(b)] = sums else { return };
        let most = a.max(b);
        let grows = is_loop && old.together.get(&key).is_some_and(|old| *old < most);
        if most <= FAR && !grows {
            self.put_together(key.0, key.1, most);
        }
    }

    fn put(
        &mut self,
        key: (u64, u64),
        distances: [Option<i64>; 2],
        (old, is_loop): (&Facts, bool),
        limit: i64,
    ) {
        let [Some(a), Some(b)] = distances else { return };
        let distance = a.max(b);
        // In a loop it may only stay what it is, so that it settles.
        let grows = is_loop && old.at_most.get(&key).is_some_and(|old| *old < distance);
        if distance <= limit && !grows {
            self.at_most.insert(key, distance);
        }
    }

    /// What a value is at most by the others.
    pub fn most(&self, name: u64, named: &Named) -> Option<i64> {
        let others = self.at_most.range((name, 0)..=(name, u64::MAX));
        let most = others.filter_map(|((_, than), distance)| {
            let Value { high, .. } = named.get(than).filter(|than| than.value.is_number())?.value;
            high.checked_add(*distance)
        });
        let sums = self.together.range((name, 0)..=(name, u64::MAX)).filter_map(|((_, with), most)| {
            let Value { low, .. } = named.get(with).filter(|with| with.value.is_number())?.value;
            most.checked_sub(low)
        });
        most.chain(sums).min()
    }
}
