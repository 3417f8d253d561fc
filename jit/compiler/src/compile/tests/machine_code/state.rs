//! What is known at one place of the code: of registers, of what the function keeps on its stack, and of the last comparison.

use super::facts::{Facts, Named};
use super::value::{Base, U32_MAX, Value};
use iced_x86::{ConditionCode, Register};
use std::collections::BTreeMap;

/// The stack pointer's number.
pub const RSP: usize = 4;
/// What functions leave as they find it.
pub const KEPT: [usize; 6] = [3, 5, 12, 13, 14, 15];
/// Below the stack pointer nothing but the kernel's signals write, from this distance on.
pub const RED_ZONE: i64 = 128;

/// A value, and a name that all copies of it have; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub value: Value,
    pub name: u64,
    /// Its lowest bits that are zero.
    aligned: u32,
    /// What its lowest byte is no more than.
    byte: i64,
}

/// The name of a value's lower 32 bits, whatever stands above.
pub fn half(name: u64) -> u64 {
    const HALF: u64 = 1 << 63;
    if name == 0 { 0 } else { name | HALF }
}

impl Known {
    pub fn of(value: Value) -> Known {
        Known { value, name: 0, aligned: 0, byte: 0xff }
    }

    pub fn named(self, name: u64) -> Known {
        Known { name, ..self }
    }

    pub fn aligned(self, bits: u32) -> Known {
        Known { aligned: bits.min(63), ..self }
    }

    pub fn with_byte(self, byte: i64) -> Known {
        Known { byte, ..self }
    }

    /// What its lowest byte is no more than.
    pub fn byte(self) -> i64 {
        if self.value.is_within(0, 0xff) { self.byte.min(self.value.high) } else { self.byte }
    }

    /// Its lowest bits, zeros above.
    pub fn zero_extended(self, bits: u32) -> Known {
        let value = self.value.zero_extended(bits);
        match bits {
            _ if value == self.value => self,
            32 => {
                Known::of(value).named(half(self.name)).aligned(self.zeros().min(31)).with_byte(self.byte())
            }
            8 => Known::of(Value::number(0, self.byte())),
            _ => Known::of(value),
        }
    }

    /// How many of its lowest bits are zero.
    pub fn zeros(self) -> u32 {
        self.value.as_exact().map_or(self.aligned, |number| number.trailing_zeros().min(63))
    }
}

/// The 64-bit lanes of a vector register: the first, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    pub first: Value,
    pub rest: Value,
}

impl Lanes {
    pub const ANY: Lanes = Lanes::all(Value::ANY);

    pub const fn all(value: Value) -> Lanes {
        Lanes { first: value, rest: value }
    }

    pub fn map(self, other: Lanes, op: impl Fn(Value, Value) -> Value) -> Lanes {
        Lanes { first: op(self.first, other.first), rest: op(self.rest, other.rest) }
    }

    /// What holds of each lane.
    pub fn any_lane(self) -> Value {
        self.first.join(self.rest)
    }
}

/// Something of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    One(i64, Known),
    Vector(i64, Lanes),
}

impl Slot {
    fn size(self) -> i64 {
        match self {
            Slot::One(size, _) | Slot::Vector(size, _) => size,
        }
    }
}

/// Two values that the flags tell of: their difference's, or of the first only whether it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    pub left: Known,
    pub right: Known,
    pub bits: u32,
    pub is_zero_only: bool,
    /// Of the first, what a mask leaves is compared with zero.
    pub mask: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub registers: [Known; 16],
    pub vectors: [Lanes; 32],
    /// Bytes of each that this tells of, and the lanes behind them.
    pub widths: [usize; 32],
    pub behind: [Value; 32],
    /// What no 32 bits of each are more than.
    pub parts: [i64; 32],
    /// By what they are counted from and where.
    slots: BTreeMap<(bool, i64), Slot>,
    /// How far the stack reaches down, counted from where the function was entered; further down from where it was aligned.
    pub stack_low: i64,
    pub compared: Option<Compared>,
    pub facts: Facts,
}

impl State {
    /// At the beginning of a function that is given these registers.
    pub fn entered(given: &[Value; 16]) -> State {
        let mut registers = given.map(Known::of);
        registers[RSP].value = Value::at(Base::Stack, 0);
        for number in KEPT {
            registers[number].value = Value::at(Base::Kept(number), 0);
        }
        State {
            registers,
            vectors: [Lanes::ANY; 32],
            widths: [64; 32],
            behind: [Value::ANY; 32],
            parts: [U32_MAX; 32],
            slots: BTreeMap::new(),
            stack_low: 0,
            compared: None,
            facts: Facts::default(),
        }
    }

    /// A vector register, as wide as it is named.
    pub fn vector(&self, register: Register) -> Lanes {
        self.lanes_up_to(register.number(), register.size())
    }

    fn lanes_up_to(&self, number: usize, size: usize) -> Lanes {
        let Lanes { first, rest } = self.vectors[number];
        if size <= self.widths[number] {
            return Lanes { first, rest };
        }
        Lanes { first, rest: rest.join(self.behind[number]) }
    }

    /// What no 32 bits of a vector register's first bytes are more than.
    pub fn parts_up_to(&self, number: usize, size: usize) -> i64 {
        let is_told = size <= self.widths[number] || self.behind[number] == Value::exact(0);
        if is_told { self.parts[number] } else { U32_MAX }
    }

    /// Puts something new or a copy into a register.
    pub fn set(&mut self, register: usize, known: Known) {
        self.registers[register] = known;
        if register == RSP {
            let low = known.value.low;
            let base = known.value.base == Base::Frame;
            if known.value.base == Base::Stack {
                self.stack_low = low;
            }
            self.slots.retain(|(frame, at), _| *frame != base || *at >= low - RED_ZONE);
        }
    }

    /// What lies below the stack pointer is the callee's.
    pub fn forget_below(&mut self) {
        let stack = self.registers[RSP].value;
        self.slots.retain(|(frame, at), _| *frame != (stack.base == Base::Frame) || *at >= stack.low);
    }

    /// How many bytes a callee may write from an address of the stack on: up to the next one that holds an address.
    pub fn lendable(&self, address: Value) -> i64 {
        let stack = self.registers[RSP].value;
        let Some((frame, low, high)) = Self::place(address) else { return 0 };
        if low != high || address.base != stack.base || low < stack.low || low > 0 {
            return 0;
        }
        let holds_address = |slot: &Slot| match slot {
            Slot::One(_, known) => !known.value.is_number(),
            Slot::Vector(_, lanes) => !lanes.first.is_number() || !lanes.rest.is_number(),
        };
        let mut above = self.slots.range((frame, low)..=(frame, 0)).filter(|(_, slot)| holds_address(slot));
        above.next().map_or(0, |((_, at), _)| *at) - low
    }

    /// What had a name that is given again is no copy of what has it from now on.
    pub fn forget(&mut self, name: u64) {
        let names = [name, half(name)];
        names.iter().for_each(|name| self.facts.forget(*name));
        let known = self.registers.iter_mut().chain(self.slots.values_mut().filter_map(|slot| match slot {
            Slot::One(_, known) => Some(known),
            Slot::Vector(..) => None,
        }));
        // What was compared was so, even if nothing holds it any more.
        let compared =
            self.compared.iter_mut().flat_map(|compared| [&mut compared.left, &mut compared.right]);
        known.chain(compared).filter(|known| names.contains(&known.name)).for_each(|known| known.name = 0);
    }

    /// What has a name that is about to be given again has another one from now on.
    pub fn rename(&mut self, name: u64, new: u64) {
        self.forget(new);
        let slots = self.slots.values_mut().filter_map(|slot| match slot {
            Slot::One(_, known) => Some(known),
            Slot::Vector(..) => None,
        });
        let compared =
            self.compared.iter_mut().flat_map(|compared| [&mut compared.left, &mut compared.right]);
        let known: Vec<&mut Known> = self.registers.iter_mut().chain(slots).chain(compared).collect();
        let names = [(name, new), (half(name), half(new))];
        for known in known {
            known.name = names.iter().find(|(old, _)| *old == known.name).map_or(known.name, |(_, new)| *new);
        }
        names.iter().for_each(|(name, new)| self.facts.rename(*name, *new));
    }

    fn place(address: Value) -> Option<(bool, i64, i64)> {
        match address.base {
            Base::Stack => Some((false, address.low, address.high)),
            Base::Frame => Some((true, address.low, address.high)),
            _ => None,
        }
    }

    /// Memory is written: what lay there is no longer known.
    pub fn overwrite(&mut self, address: Value, size: i64) {
        if let Some((frame, low, high)) = Self::place(address) {
            let is_apart = |at: i64, slot: &Slot| at + slot.size() <= low || at >= high + size;
            self.slots.retain(|(other, at), slot| *other != frame || is_apart(*at, slot));
        }
    }

    pub fn store(&mut self, address: Value, slot: Slot) {
        self.overwrite(address, slot.size());
        if let Some((frame, low, high)) = Self::place(address)
            && low == high
        {
            self.slots.insert((frame, low), slot);
        }
    }

    pub fn slot(&self, address: Value) -> Option<Slot> {
        let (frame, low, high) = Self::place(address)?;
        self.slots.get(&(frame, low)).copied().filter(|_| low == high)
    }

    /// Bounds all copies of what has a name; false if there is no such value.
    fn bound(&mut self, known: Known, low: i64, high: i64) -> bool {
        let Some(met) = known.value.meet(low, high) else { return false };
        if known.name != 0 {
            for (name, low) in self.facts.left_of(Known { value: met, ..known }) {
                self.bound_named(name, Base::Zero, (low, i64::MAX));
            }
            self.bound_named(known.name, known.value.base, (low, high));
        }
        true
    }

    fn bound_named(&mut self, name: u64, base: Base, (low, high): (i64, i64)) {
        let slots = self.slots.values_mut().filter_map(|slot| match slot {
            Slot::One(_, known) => Some(known),
            Slot::Vector(..) => None,
        });
        let copies = self.registers.iter_mut().chain(slots).filter(|copy| copy.name == name);
        for copy in copies.filter(|copy| copy.value.base == base) {
            copy.value = copy.value.meet(low, high).unwrap_or(copy.value);
            if base == Base::Zero {
                copy.value = copy.value.aligned(copy.aligned);
            }
        }
    }

    /// Takes for true what the flags say; false if they can't say so.
    pub fn assume(&mut self, condition: ConditionCode) -> bool {
        let Some(Compared { left, right, bits, is_zero_only, mask }) = self.compared else { return true };
        if let Some(mask) = mask {
            if condition == ConditionCode::ne {
                self.facts.is_nonzero(left.name, mask);
                if (0..=U32_MAX).contains(&mask) {
                    self.facts.is_nonzero(half(left.name), mask);
                }
            }
            return true;
        }
        let is_equality = matches!(condition, ConditionCode::e | ConditionCode::ne);
        if left.value.base != right.value.base || is_zero_only && !is_equality {
            return true;
        }
        let fits =
            |known: Known| bits == 64 || known.value.is_within(0, (U32_MAX as u64 >> (32 - bits)) as i64);
        if !fits(left) || !fits(right) {
            return true;
        }
        let (l, r) = (bounds_of(condition, left.value, right.value, bits), mirrored(condition));
        let r = bounds_of(r, right.value, left.value, bits);
        if !self.bound(left, l.0, l.1) || !self.bound(right, r.0, r.1) {
            return false;
        }
        if condition == ConditionCode::ne && left.value.is_number() {
            for (one, other) in [(left, right), (right, left)] {
                if let Some(distance) = self.facts.differ(one, other) {
                    let most = other.value.high.saturating_add(distance);
                    self.bound_named(one.name, Base::Zero, (i64::MIN, most));
                }
            }
        }
        true
    }

    /// What holds in both; bounds that grow in a loop grow at once to the next of some.
    pub fn join(&self, other: &State, at: u64, bounds: Option<&[i64]>) -> State {
        let value = |a: Value, b: Value| match bounds {
            Some(bounds) => a.widen(b, bounds),
            None => a.join(b),
        };
        let mut given = Vec::new();
        let mut known = |a: Known, b: Known, place: u64| {
            let differs = at << 36 | place;
            let name = if a.name == b.name { a.name } else { differs };
            if name == differs {
                given.push((name, [a, b]));
            }
            let joined = Known::of(value(a.value, b.value)).named(name);
            joined.aligned(a.zeros().min(b.zeros())).with_byte(a.byte().max(b.byte()))
        };
        let registers = std::array::from_fn(|n| known(self.registers[n], other.registers[n], 1 + n as u64));
        let widths: [usize; 32] = std::array::from_fn(|n| self.widths[n].max(other.widths[n]));
        let vectors = std::array::from_fn(|n| {
            self.lanes_up_to(n, widths[n]).map(other.lanes_up_to(n, widths[n]), value)
        });
        let behind = std::array::from_fn(|n| self.behind[n].join(other.behind[n]));
        let parts =
            std::array::from_fn(|n| self.parts_up_to(n, widths[n]).max(other.parts_up_to(n, widths[n])));
        let mut slots = BTreeMap::new();
        for (place, a) in &self.slots {
            let number = number_of_slot(*place);
            let joined = match (a, other.slots.get(place)) {
                (Slot::One(size, a), Some(Slot::One(also, b))) if size == also => {
                    Slot::One(*size, known(*a, *b, number))
                }
                (Slot::Vector(size, a), Some(Slot::Vector(also, b))) if size == also => {
                    Slot::Vector(*size, a.map(*b, value))
                }
                _ => continue,
            };
            slots.insert(*place, joined);
        }
        let stack_low = self.stack_low.max(other.stack_low);
        let mut compared = self.compared.filter(|_| self.compared == other.compared);
        // A name that is given now is not the compared value's any more.
        for known in compared.iter_mut().flat_map(|compared| [&mut compared.left, &mut compared.right]) {
            if given.iter().any(|(name, _)| [*name, half(*name)].contains(&known.name)) {
                known.name = 0;
            }
        }
        let named = [self, other].map(State::named_values);
        let ways = [(&self.facts, &named[0]), (&other.facts, &named[1])];
        let facts = Facts::join(ways, &given, bounds.is_some());
        let mut state =
            State { registers, vectors, widths, behind, parts, slots, stack_low, compared, facts };
        state.only_one_of_each(&given);
        let named = state.named_values();
        for (name, _) in given {
            if let Some(most) = state.facts.most(name, &named) {
                state.bound_named(name, Base::Zero, (i64::MIN, most));
            }
        }
        state
    }

    fn named_values(&self) -> Named {
        let slots = self.slots.values().filter_map(|slot| match slot {
            Slot::One(_, known) => Some(known),
            Slot::Vector(..) => None,
        });
        let named = self.registers.iter().chain(slots).filter(|known| known.name != 0);
        named.map(|known| (known.name, *known)).collect()
    }

    /// Names that were given now are of one place each.
    fn only_one_of_each(&mut self, given: &[(u64, [Known; 2])]) {
        for &(name, _) in given {
            let at = name & ((1 << 36) - 1);
            let is_place = |number: usize| at == 1 + number as u64;
            let twice = self.registers.iter().filter(|known| known.name == name).count()
                + self
                    .slots
                    .values()
                    .filter(|slot| matches!(slot, Slot::One(_, k) if k.name == name))
                    .count();
            if twice <= 1 {
                continue;
            }
            for (number, known) in self.registers.iter_mut().enumerate() {
                if known.name == name && !is_place(number) {
                    known.name = 0;
                }
            }
            for (place, slot) in &mut self.slots {
                match slot {
                    Slot::One(_, known) if known.name == name && number_of_slot(*place) != at => {
                        known.name = 0
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Places of the stack are no further apart.
fn number_of_slot((frame, place): (bool, i64)) -> u64 {
    1 << 34 | u64::from(frame) << 33 | (place as u64 & ((1 << 33) - 1))
}

/// The condition that holds of two values in the other order.
fn mirrored(condition: ConditionCode) -> ConditionCode {
    use ConditionCode::*;
    match condition {
        b => a,
        a => b,
        be => ae,
        ae => be,
        l => g,
        g => l,
        le => ge,
        ge => le,
        e | ne => condition,
        _ => None,
    }
}

/// Within what the first of two values is, if a condition holds of them.
fn bounds_of(condition: ConditionCode, left: Value, right: Value, bits: u32) -> (i64, i64) {
    use ConditionCode::*;
    const ANYTHING: (i64, i64) = (i64::MIN, i64::MAX);
    let less = right.high.saturating_sub(1);
    let more = right.low.saturating_add(1);
    let is_address = !left.is_number();
    // Within these, bits mean the same with a sign and without.
    let most = if bits == 64 { i64::MAX } else { (1 << (bits - 1)) - 1 };
    let (is_left_positive, is_right_positive) = (left.is_within(0, most), right.is_within(0, most));
    let is_unsigned = is_address || is_right_positive || bits < 64;
    let (zero, has_order) = if is_address { (i64::MIN, true) } else { (0, left.low >= 0 && right.low >= 0) };
    match condition {
        e => (right.low, right.high),
        ne if right.low == right.high && left.low == right.low => (more, i64::MAX),
        ne if right.low == right.high && left.high == right.low => (i64::MIN, less),
        b if is_unsigned => (zero, less),
        be if is_unsigned => (zero, right.high),
        a if has_order => (more, i64::MAX),
        ae if has_order => (right.low, i64::MAX),
        // The rest is signed.
        s if right.as_exact() == Some(0) && bits == 64 => (i64::MIN, -1),
        ns if right.as_exact() == Some(0) => (0, most),
        g | ge if bits < 64 && is_right_positive => (if condition == g { more } else { right.low }, most),
        l | le if bits < 64 && !(is_left_positive && is_right_positive) => ANYTHING,
        g if bits == 64 => (more, i64::MAX),
        ge if bits == 64 => (right.low, i64::MAX),
        l => (i64::MIN, less),
        le => (i64::MIN, right.high),
        _ => ANYTHING,
    }
}
