//! What is known of 64 bits in a register: a place that they are counted from, and an interval.

/// What a value is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Nothing: a number, signed.
    Zero,
    /// The beginning of the linear memory.
    Memory,
    /// The stack pointer that the function was entered with.
    Stack,
    /// The stack pointer that was aligned.
    Frame,
    /// What the caller gives of its stack for results.
    Lent,
    /// The launch's record.
    Launch,
    /// The object as [`super::object::Image`] places it.
    Object,
    /// A function of the outside, by where the object says which.
    Function(i64),
    /// What the register of that number held when the function was entered.
    Kept(usize),
    /// A distance that stands in a table of them: the interval is where in the object.
    Distance,
    /// The table's beginning and such a distance.
    Target(i64),
}

/// From `low` to `high`, both of them included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub base: Base,
    pub low: i64,
    pub high: i64,
}

/// Distances from an address are no longer, so that sums don't wrap.
const FAR: i128 = 1 << 45;

pub const U32_MAX: i64 = u32::MAX as i64;

impl Value {
    pub const ANY: Value = Value { base: Base::Zero, low: i64::MIN, high: i64::MAX };
    pub const U32: Value = Value { base: Base::Zero, low: 0, high: U32_MAX };
    pub const I32: Value = Value { base: Base::Zero, low: i32::MIN as i64, high: i32::MAX as i64 };

    pub fn at(base: Base, offset: i64) -> Value {
        Value { base, low: offset, high: offset }
    }

    pub fn number(low: i64, high: i64) -> Value {
        Value { base: Base::Zero, low, high }
    }

    pub fn exact(number: i64) -> Value {
        Value::at(Base::Zero, number)
    }

    /// Of the sums that need not wrap; anything if they might.
    fn of(base: Base, low: i128, high: i128) -> Value {
        let limit = if base == Base::Zero { i128::from(i64::MAX) } else { FAR };
        if low < -limit || high > limit {
            return Value::ANY;
        }
        Value { base, low: low as i64, high: high as i64 }
    }

    pub fn is_number(self) -> bool {
        self.base == Base::Zero
    }

    pub fn as_exact(self) -> Option<i64> {
        (self.is_number() && self.low == self.high).then_some(self.low)
    }

    /// Whether it is a number from `low` to `high`.
    pub fn is_within(self, low: i64, high: i64) -> bool {
        self.is_number() && low <= self.low && self.high <= high
    }

    pub fn add(self, other: Value) -> Value {
        let base = match (self.base, other.base) {
            (base, Base::Zero) | (Base::Zero, base) => base,
            (Base::Distance, Base::Object) if other.low == other.high => {
                return Value { base: Base::Target(other.low), ..self };
            }
            (Base::Object, Base::Distance) => return other.add(self),
            _ => return Value::ANY,
        };
        // A distance is itself known by its place alone.
        if matches!(base, Base::Distance | Base::Target(_)) {
            return Value::ANY;
        }
        let sum = |a: i64, b: i64| i128::from(a) + i128::from(b);
        Value::of(base, sum(self.low, other.low), sum(self.high, other.high))
    }

    pub fn subtract(self, other: Value) -> Value {
        let base = match (self.base, other.base) {
            (Base::Distance | Base::Target(_), _) => return Value::ANY,
            (base, Base::Zero) => base,
            (a, b) if a == b => Base::Zero,
            _ => return Value::ANY,
        };
        let difference = |a: i64, b: i64| i128::from(a) - i128::from(b);
        Value::of(base, difference(self.low, other.high), difference(self.high, other.low))
    }

    pub fn multiply(self, other: Value) -> Value {
        if other.as_exact() == Some(1) {
            return self;
        }
        if !self.is_number() || !other.is_number() {
            return Value::ANY;
        }
        let ends =
            [self.low, self.high].map(|a| [other.low, other.high].map(|b| i128::from(a) * i128::from(b)));
        let ends = ends.as_flattened();
        let (low, high) = (ends.iter().min(), ends.iter().max());
        Value::of(Base::Zero, *low.unwrap_or(&i128::MIN), *high.unwrap_or(&i128::MAX))
    }

    /// What holds of both.
    pub fn join(self, other: Value) -> Value {
        let is_table = matches!(self.base, Base::Distance | Base::Target(_));
        if self.base != other.base || is_table && (self.low - other.low) % 4 != 0 {
            return Value::ANY;
        }
        Value { base: self.base, low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The same, with bounds that grow at once to the next of some; anything behind the last.
    pub fn widen(self, other: Value, bounds: &[i64]) -> Value {
        let joined = self.join(other);
        if joined == self || joined.base != self.base {
            return joined;
        }
        let below = || bounds.iter().rev().find(|bound| **bound <= joined.low).copied();
        let above = || bounds.iter().find(|bound| **bound >= joined.high).copied();
        let low = if joined.low < self.low { below() } else { Some(self.low) };
        let high = if joined.high > self.high { above() } else { Some(self.high) };
        match (self.base, low, high) {
            (Base::Zero, low, high) => Value::number(low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX)),
            (base, Some(low), Some(high)) => Value { base, low, high },
            _ => Value::ANY,
        }
    }

    /// What is also from `low` to `high`, both counted from the same; None if nothing can be.
    pub fn meet(self, low: i64, high: i64) -> Option<Value> {
        let met = Value { base: self.base, low: self.low.max(low), high: self.high.min(high) };
        (met.low <= met.high).then_some(met)
    }

    /// The same, of numbers whose lowest bits are zeros.
    pub fn aligned(self, bits: u32) -> Value {
        let below = (1_i64 << bits.min(32)) - 1;
        match self.low.checked_add(below) {
            Some(up) if up & !below <= self.high & !below => {
                Value { low: up & !below, high: self.high & !below, ..self }
            }
            _ => self,
        }
    }

    /// Its lowest bits, zeros above.
    pub fn zero_extended(self, bits: u32) -> Value {
        let most = if bits >= 64 { return self } else { (1_i64 << bits) - 1 };
        if self.is_within(0, most) { self } else { Value::number(0, most) }
    }

    /// Its lowest bits, their sign above.
    pub fn sign_extended(self, bits: u32) -> Value {
        let most = if bits >= 64 { return self } else { (1_i64 << (bits - 1)) - 1 };
        if self.is_within(-most - 1, most) { self } else { Value::number(-most - 1, most) }
    }

    pub fn and(self, other: Value) -> Value {
        let (value, mask) = if other.as_exact().is_some() { (self, other) } else { (other, self) };
        match mask.as_exact() {
            Some(-1) => return value,
            None if [self, other].iter().any(|mask| mask.is_within(-1, 0)) => {
                let kept = if self.is_within(-1, 0) { other } else { self };
                return kept.join(Value::exact(0));
            }
            // Aligned downwards.
            Some(mask) if mask < 0 && mask.wrapping_neg().count_ones() == 1 && !value.is_number() => {
                return Value::of(
                    value.base,
                    i128::from(value.low) + i128::from(mask) + 1,
                    value.high.into(),
                );
            }
            _ => {}
        }
        let of = [self, other].into_iter().filter(|value| value.is_within(0, i64::MAX));
        of.map(|value| value.high).min().map_or(Value::ANY, |most| Value::number(0, most))
    }

    /// Also of exclusive ones.
    pub fn or(self, other: Value) -> Value {
        if self.as_exact() == Some(0) {
            return other;
        }
        if other.as_exact() == Some(0) {
            return self;
        }
        if !self.is_within(0, i64::MAX) || !other.is_within(0, i64::MAX) {
            return Value::ANY;
        }
        let bits = 64 - (self.high | other.high).leading_zeros();
        Value::number(0, if bits >= 63 { i64::MAX } else { (1 << bits) - 1 })
    }

    pub fn xor(self, other: Value) -> Value {
        let (value, mask) = if other.as_exact().is_some() { (self, other) } else { (other, self) };
        match mask.as_exact() {
            Some(mask @ 0..=0x3fff_ffff) if value.is_number() => {
                let bits = (mask as u64 + 1).next_power_of_two() as i64 - 1;
                Value::number(value.low.saturating_sub(bits), value.high.saturating_add(bits))
            }
            _ => self.or(other),
        }
    }

    /// The larger one, or the smaller one, of two without signs.
    pub fn extreme(self, other: Value, larger: bool) -> Value {
        if !self.is_within(0, i64::MAX) || !other.is_within(0, i64::MAX) {
            return Value::ANY;
        }
        let choose = if larger { i64::max } else { i64::min };
        Value::number(choose(self.low, other.low), choose(self.high, other.high))
    }

    pub fn shift_left(self, by: Value) -> Value {
        match by.as_exact() {
            Some(0) => self,
            Some(by @ 1..=62) => self.multiply(Value::exact(1 << by)),
            _ => Value::ANY,
        }
    }

    pub fn shift_right(self, by: Value, signed: bool) -> Value {
        let by = match by.as_exact() {
            Some(0) => return self,
            Some(by @ 1..=63) => by,
            _ if self.is_within(0, i64::MAX) => return Value::number(0, self.high),
            _ => return Value::ANY,
        };
        if self.is_number() && (signed || self.low >= 0) {
            Value::number(self.low >> by, self.high >> by)
        } else if signed {
            Value::number(i64::MIN >> by, i64::MAX >> by)
        } else {
            Value::number(0, (u64::MAX >> by) as i64)
        }
    }
}
