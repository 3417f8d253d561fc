//! What the functions are tried with: edges, numbers spread over the whole type and over its interesting parts, drawn
//! and evenly spaced.

use super::measure::Format;

/// A sequence of draws, the same each time.
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// Any 64 bits (splitmix64).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of [0, 1).
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 2.0f64.powi(53)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number of the type: any, of moderate size, near one, near a multiple of π/2, of the range of exponentials.
    pub fn number(&mut self, format: Format) -> f64 {
        let choice = self.bits() % 8;
        let number = match choice {
            0 | 1 => return any(format, self.bits()),
            2 => self.between(-20.0, 9.0).exp2(),
            3 => self.between(-40.0, 40.0).exp2(),
            4 => 1.0 + self.between(-1.0, 1.0) * self.between(-40.0, 0.0).exp2(),
            5 => ((self.unit() * self.between(1.0, 60.0).exp2()).round() + 1.0) * std::f64::consts::FRAC_PI_2,
            6 => self.between(0.0, f64::from(format.highest) * 1.1),
            _ => self.between(0.0, 3.0),
        };
        rounded(format, if self.bits() & 1 == 0 { number } else { -number })
    }

    /// An int: small ones above all.
    pub fn integer(&mut self) -> f64 {
        let bits = self.bits();
        f64::from((bits as i32) >> ((bits >> 32) % 32))
    }
}

/// As the type holds it.
pub fn rounded(format: Format, x: f64) -> f64 {
    if format.digits == 24 { f64::from(x as f32) } else { x }
}

fn any(format: Format, bits: u64) -> f64 {
    if format.digits == 24 { f64::from(f32::from_bits((bits >> 32) as u32)) } else { f64::from_bits(bits) }
}

/// Zeros, infinities, NaN, denormals, powers of two, small integers and halves, with their neighbours, both signs.
pub fn edges(format: Format) -> Vec<f64> {
    let Format { digits, lowest, highest, .. } = format;
    let powers = (lowest - digits + 1..=highest).step_by(if digits == 24 { 1 } else { 7 });
    let special = [0.0, f64::INFINITY, f64::NAN, f64::from(f32::MAX), f64::MAX, f64::MIN_POSITIVE, 5e-324];
    let places =
        [0.3, 2.5, 3.5, 5.0, 10.0, 34.0, 88.7, 89.0, 103.9, 150.0, 171.6, 308.3, 709.8, 745.1, 1e10, 3.3e7];
    let sizes =
        special.into_iter().chain(places).chain(powers.map(|e| 2.0f64.powi(e / 2) * 2.0f64.powi(e - e / 2)));
    let halves = (1..20).map(|n| f64::from(n) * 0.5);
    let neighbours = |x: f64| match digits {
        24 => [x as f32, (x as f32).next_up(), (x as f32).next_down()].map(f64::from),
        _ => [x, x.next_up(), x.next_down()],
    };
    sizes.chain(halves).flat_map(neighbours).flat_map(|x| [x, -x]).collect()
}

/// For functions of one argument: `count` drawn, and as many of evenly spaced values and bit patterns.
pub fn numbers(format: Format, count: u32) -> Vec<f64> {
    let mut draws = Draws::new(1);
    let patterns = (0..u64::from(count)).map(|i| any(format, i * (u64::MAX / u64::from(count)) + i % 61));
    let spaced = [1.0, 10.0, f64::from(format.highest)].map(|limit| {
        let step = 6.0 * limit / f64::from(count);
        (0..count / 3).map(move |i| rounded(format, (f64::from(i) + 0.49) * step - limit))
    });
    let drawn = (0..count).map(|_| draws.number(format)).collect::<Vec<_>>();
    edges(format).into_iter().chain(patterns).chain(spaced.into_iter().flatten()).chain(drawn).collect()
}

/// What longer searches found: sixty million floats whose logarithm counts most show where pow errs most.
const FOUND: [(f32, f32); 2] = [(1.3845991, 251.32587), (0.7222309, 262.13193)];

/// For functions of two.
pub fn pairs(format: Format, integer: bool, count: u32) -> Vec<(f64, f64)> {
    let (mut draws, all) = (Draws::new(2), edges(format));
    let integers = [0, 1, -1, 2, -2, 3, -3, 7, 64, -65, 127, 1000, -1001, i32::MAX, i32::MIN].map(f64::from);
    let few: Vec<f64> =
        all.iter().copied().filter(|x| !(1e-3..=20.0).contains(&x.abs())).step_by(29).collect();
    let special =
        [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.5, 2.0, 3.0, -2.0, -3.0, 1e-40];
    let seconds: Vec<f64> = match integer {
        true => integers.to_vec(),
        false => special.iter().chain(&few).map(|&x| rounded(format, x)).collect(),
    };
    let firsts: Vec<f64> = special.iter().chain(&few).map(|&x| rounded(format, x)).collect();
    let mut pairs: Vec<_> = firsts.iter().flat_map(|&x| seconds.iter().map(move |&y| (x, y))).collect();
    if !integer {
        pairs.extend(FOUND.map(|(x, y)| (x.into(), y.into())));
    }
    for index in 0..count {
        // Powers of numbers near 1 show what a logarithm loses.
        let near_one = !integer && index % 8 == 5;
        let x = if near_one { rounded(format, draws.between(0.7, 1.42)) } else { draws.number(format) };
        let y = match (integer, index % 4) {
            (true, _) => draws.integer(),
            // Close to each other; a power that neither overflows nor is trivial.
            (false, 0) => rounded(format, x * draws.between(0.5, 2.0)),
            (false, 1) => {
                rounded(format, draws.between(-1.1, 1.1) * f64::from(format.highest) / x.abs().log2())
            }
            (false, _) => draws.number(format),
        };
        pairs.push((x, y));
    }
    pairs
}
