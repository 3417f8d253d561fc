//! Places in memory that work-items access by their own numbers: where no two of them meet, nobody has to look for races.
//!
//! The compiler describes an address as a sum of products of arguments, sizes and ids; whether it is another one for each work-item, the
//! launch says, which knows all of that but the ids, and of those how many there are.

use crate::program::Launch;
use serde::{Deserialize, Serialize};

/// What some of a kernel's accesses touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The argument whose buffer it is, of which these are all accesses; None: the group's local memory.
    pub argument: Option<u32>,
    /// Each is of some of the accesses, which those of another one don't meet.
    pub strides: Vec<Stride>,
}

/// A stretch of bytes for each work-item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stride {
    /// Where it is.
    pub start: Polynomial,
    /// Bytes from `start` on, the first and the one behind the last.
    pub bytes: (i64, i64),
    /// What has to be true so that nothing wraps around before it is part of `start`.
    pub fits: Vec<Fit>,
}

/// An integer of some bits that becomes a wider one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fit {
    /// Its value.
    pub value: Polynomial,
    /// Its bits.
    pub bits: u32,
    /// Whether the highest one is a sign.
    pub is_signed: bool,
}

/// The sum of its terms, none of which is 0 or of the same symbols and id as another one, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polynomial(pub Vec<Term>);

/// A product.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term {
    /// What differs from one work-item to the next, if it does.
    pub id: Option<Id>,
    /// What the launch knows, in order.
    pub symbols: Vec<Symbol>,
    /// A constant.
    pub factor: i64,
}

/// A work-item's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Id {
    /// In its group, in that dimension.
    Local(u8),
    /// Its group's.
    Group(u8),
}

/// An integer that is the same for all work-items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Symbol {
    /// A signed one in the block of arguments.
    Argument {
        /// Where it lies.
        offset: u32,
        /// Bytes: 4 or 8.
        size: u32,
    },
    /// `local_work_size`.
    LocalSize(u8),
    /// `global_work_size`.
    GlobalSize(u8),
    /// `global_work_offset`.
    GlobalOffset(u8),
    /// Work-groups.
    Groups(u8),
}

/// So many terms of a polynomial are looked at.
const MOST_TERMS: usize = 24;

/// Farther apart no two addresses are.
const FAR: i128 = 1 << 62;

impl Polynomial {
    /// A constant.
    pub fn constant(factor: i64) -> Polynomial {
        Polynomial::of(vec![Term { id: None, symbols: Vec::new(), factor }]).unwrap_or_default()
    }

    /// One id or symbol.
    pub fn one(id: Option<Id>, symbols: &[Symbol]) -> Polynomial {
        Polynomial(vec![Term { id, symbols: symbols.to_vec(), factor: 1 }])
    }

    fn of(mut terms: Vec<Term>) -> Option<Polynomial> {
        terms.sort();
        let mut sum: Vec<Term> = Vec::new();
        for term in terms {
            match sum.last_mut().filter(|last| (last.id, &last.symbols) == (term.id, &term.symbols)) {
                Some(last) => last.factor = last.factor.checked_add(term.factor)?,
                None => sum.push(term),
            }
        }
        sum.retain(|term| term.factor != 0);
        (sum.len() <= MOST_TERMS).then_some(Polynomial(sum))
    }

    /// Of both; None if that is too much.
    pub fn plus(&self, other: &Polynomial) -> Option<Polynomial> {
        Polynomial::of(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// The same; None also if ids are multiplied.
    pub fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        let product = |a: &Term, b: &Term| {
            let mut symbols: Vec<Symbol> = a.symbols.iter().chain(&b.symbols).copied().collect();
            symbols.sort();
            let is_one = a.id.is_none() || b.id.is_none();
            let factor = a.factor.checked_mul(b.factor)?;
            (is_one && symbols.len() <= 4).then(|| Term { id: a.id.or(b.id), symbols, factor })
        };
        let terms = self.0.iter().flat_map(|a| other.0.iter().map(move |b| product(a, b)));
        Polynomial::of(terms.collect::<Option<_>>()?)
    }

    /// The constant, and the rest.
    pub fn split(mut self) -> (i64, Polynomial) {
        match self.0.iter().position(|term| term.id.is_none() && term.symbols.is_empty()) {
            Some(at) => (self.0.remove(at).factor, self),
            None => (0, self),
        }
    }

    /// Each term's id and its product in a launch; None if that is too large.
    fn products(&self, launch: &Launch, arguments: &[u8]) -> Option<Vec<(Option<Id>, i128)>> {
        let product = |term: &Term| {
            let value = term.symbols.iter().try_fold(i128::from(term.factor), |product, symbol| {
                product.checked_mul(symbol.value(launch, arguments)?).filter(|value| value.abs() <= FAR)
            });
            Some((term.id, value?))
        };
        self.0.iter().map(product).collect()
    }

    /// The least and the largest value that it has for any work-item.
    fn range(&self, launch: &Launch, arguments: &[u8]) -> Option<(i128, i128)> {
        let mut range = (0, 0);
        for (id, product) in self.products(launch, arguments)? {
            let (one, other) = match id {
                Some(id) => (0, product.checked_mul(id.count(launch) - 1)?),
                None => (product, product),
            };
            range = (range.0 + one.min(other), range.1 + one.max(other));
            if range.0 < -FAR || range.1 > FAR {
                return None;
            }
        }
        Some(range)
    }
}

impl Id {
    /// How many there are.
    fn count(self, launch: &Launch) -> i128 {
        let (counts, dimension) = match self {
            Id::Local(dimension) => (&launch.enqueued_local_size, dimension),
            Id::Group(dimension) => (&launch.total_groups, dimension),
        };
        counts.get(usize::from(dimension)).map_or(1, |&count| count.max(1).into())
    }
}

impl Symbol {
    fn value(self, launch: &Launch, arguments: &[u8]) -> Option<i128> {
        let of = |sizes: &[u64; 3], dimension: u8| sizes.get(usize::from(dimension)).map(|&size| size.into());
        match self {
            Symbol::Argument { offset, size } => {
                let bytes = arguments.get(offset as usize..)?.get(..size as usize)?;
                match size {
                    4 => Some(i32::from_ne_bytes(bytes.try_into().ok()?).into()),
                    _ => Some(i64::from_ne_bytes(bytes.try_into().ok()?).into()),
                }
            }
            Symbol::LocalSize(dimension) => of(&launch.enqueued_local_size, dimension),
            Symbol::GlobalSize(dimension) => of(&launch.global_size, dimension),
            Symbol::GlobalOffset(dimension) => of(&launch.global_offset, dimension),
            Symbol::Groups(dimension) => of(&launch.total_groups, dimension),
        }
    }
}

impl Places {
    /// Whether in a launch with these arguments no two work-items touch the same byte; of local memory, none of a group.
    pub fn are_apart(&self, launch: &Launch, arguments: &[u8]) -> bool {
        let is_local = self.argument.is_none();
        self.strides.iter().all(|stride| stride.is_apart(launch, arguments, is_local).unwrap_or(false))
    }
}

impl Stride {
    fn is_apart(&self, launch: &Launch, arguments: &[u8], is_local: bool) -> Option<bool> {
        for Fit { value, bits, is_signed } in &self.fits {
            let (least, most) = value.range(launch, arguments)?;
            let limit = 1_i128 << bits.min(&64);
            let fits = match is_signed {
                true => least >= -limit / 2 && most < limit / 2,
                false => least >= 0 && most < limit,
            };
            if !fits {
                return Some(false);
            }
        }
        self.start.range(launch, arguments)?;
        let mut steps: Vec<(Id, i128)> = Vec::new();
        for (id, product) in self.start.products(launch, arguments)? {
            let Some(id) = id.filter(|id| !(is_local && matches!(id, Id::Group(_)))) else { continue };
            match steps.iter_mut().find(|(other, _)| *other == id) {
                Some((_, sum)) => *sum = sum.checked_add(product)?,
                None => steps.push((id, product)),
            }
        }
        // Those that there is one of only don't tell anybody apart, and all others have to.
        let all = (0..3).flat_map(|d| [Some(Id::Local(d)), (!is_local).then_some(Id::Group(d))]).flatten();
        let mut steps: Vec<(i128, i128)> = all
            .filter(|id| id.count(launch) > 1)
            .map(|id| {
                (steps.iter().find(|(of, _)| *of == id).map_or(0, |(_, step)| step.abs()), id.count(launch))
            })
            .collect();
        steps.sort_unstable();
        let mut room = i128::from(self.bytes.1) - i128::from(self.bytes.0);
        for (step, count) in steps {
            if step < room {
                return Some(false);
            }
            room = room.checked_add(step.checked_mul(count - 1)?)?;
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Id = Id::Local(0);
    const Y: Id = Id::Local(1);
    const WIDTH: Symbol = Symbol::Argument { offset: 4, size: 4 };

    fn term(id: Option<Id>, symbols: &[Symbol], factor: i64) -> Polynomial {
        Polynomial::one(id, symbols).times(&Polynomial::constant(factor)).unwrap()
    }

    /// get_global_id, times a factor.
    fn global(dimension: u8, factor: &Polynomial) -> Polynomial {
        let group = Polynomial::one(Some(Id::Group(dimension)), &[Symbol::LocalSize(dimension)]);
        let id = group.plus(&Polynomial::one(Some(Id::Local(dimension)), &[])).unwrap();
        id.times(factor).unwrap()
    }

    fn apart(
        argument: Option<u32>,
        start: &Polynomial,
        bytes: (i64, i64),
        width: i32,
        local: [u64; 3],
    ) -> bool {
        let launch = Launch::whole(2, [0; 3], [64, 32, 1], local);
        let arguments = [[0; 4], width.to_ne_bytes()].concat();
        let stride = Stride { start: start.clone(), bytes, fits: Vec::new() };
        Places { argument, strides: vec![stride] }.are_apart(&launch, &arguments)
    }

    #[test]
    fn sums_are_in_order() {
        let sum = term(Some(X), &[], 4).plus(&term(None, &[WIDTH], 2)).unwrap();
        let other = term(None, &[WIDTH], 2).plus(&term(Some(X), &[], 4)).unwrap();
        assert_eq!(sum, other);
        assert_eq!(sum.plus(&term(Some(X), &[], -4)).unwrap(), term(None, &[WIDTH], 2));
        assert_eq!(sum.times(&term(Some(Y), &[], 1)), None, "ids aren't multiplied");
        assert_eq!(sum.plus(&Polynomial::constant(7)).unwrap().split(), (7, sum));
        assert_eq!(Polynomial::constant(0), Polynomial::default());
        assert_eq!(Polynomial::constant(i64::MAX).plus(&Polynomial::constant(1)), None);
    }

    #[test]
    fn rows_and_columns_are_apart_if_they_are_long_enough() {
        let four = Polynomial::constant(4);
        let rows = global(0, &four).plus(&global(1, &term(None, &[WIDTH], 4))).unwrap();
        let columns = global(1, &four).plus(&global(0, &term(None, &[WIDTH], 4))).unwrap();
        for (width, start, is_apart) in [
            (64, &rows, true),
            (63, &rows, false),
            (-64, &rows, true),
            (32, &columns, true),
            (31, &columns, false),
        ] {
            assert_eq!(apart(Some(0), start, (0, 4), width, [16, 8, 1]), is_apart, "{width}");
        }
        assert!(!apart(Some(0), &rows, (0, 8), 64, [16, 8, 1]), "each reads its neighbour");
        assert!(!apart(Some(0), &rows, (-4, 4), 64, [16, 8, 1]));
        assert!(!apart(Some(0), &global(0, &four), (0, 4), 0, [16, 8, 1]), "the rows are the same");
    }

    #[test]
    fn local_memory_is_the_groups() {
        let start = term(Some(X), &[], 4).plus(&term(Some(Id::Group(0)), &[], 4)).unwrap();
        assert!(apart(None, &start, (0, 4), 0, [64, 1, 1]));
        assert!(!apart(None, &start, (0, 4), 0, [32, 2, 1]));
        assert!(!apart(Some(1), &start, (0, 4), 0, [64, 1, 1]));
    }

    #[test]
    fn what_wraps_around_is_not_apart() {
        let launch = Launch::whole(1, [0; 3], [1 << 20, 1, 1], [64, 1, 1]);
        let start = global(0, &Polynomial::constant(1 << 12));
        let apart = |start: &Polynomial, value: &Polynomial, is_signed| {
            let fits = vec![Fit { value: value.clone(), bits: 32, is_signed }];
            let stride = Stride { start: start.clone(), bytes: (0, 4), fits };
            Places { argument: Some(0), strides: vec![stride] }.are_apart(&launch, &[])
        };
        let one = global(0, &Polynomial::constant(1));
        assert!(apart(&start, &one, true));
        let large = global(0, &Polynomial::constant(1 << 13));
        assert!(!apart(&start, &large, true) && !apart(&start, &large, false));
        let below = one.plus(&Polynomial::constant(-1)).unwrap();
        assert!(apart(&start, &below, true) && !apart(&start, &below, false));
        // Nor is what isn't known.
        let unknown = start.times(&term(None, &[WIDTH], 1)).unwrap();
        assert!(!apart(&unknown, &one, true));
        let far = global(0, &Polynomial::constant(1 << 50));
        assert!(!apart(&far, &one, true));
    }
}
