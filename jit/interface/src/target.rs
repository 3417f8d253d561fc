//! What code is generated for.

use serde::{Deserialize, Serialize};

/// A processor as LLVM names it, and how many threads may generate code for one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// LLVM's name of the processor, such as `sapphirerapids`.
    pub cpu: String,
    /// LLVM's features, such as `+avx2,-avx512f`.
    pub features: String,
    /// Threads that may work on one program; its objects are as many at most.
    pub threads: u32,
}

impl Target {
    /// What code for the processor takes into account.
    pub fn facts(&self) -> TargetFacts {
        let vector_bits = match () {
            () if self.has("avx512f") => 512,
            () if self.has("avx") => 256,
            () => 128,
        };
        let avx512 = self.has("avx512f");
        // AVX2's gathers LLVM takes on Intel's processors only: on others they are slower than as many loads.
        let avx2 = self.has("avx2") && !["x86-64", "znver"].iter().any(|cpu| self.cpu.starts_with(cpu));
        TargetFacts {
            avx512,
            permutes_bytes: avx512 && self.has("avx512vbmi"),
            fuses: self.has("fma"),
            gathers: avx512 || avx2,
            scatters: avx512,
            ..TargetFacts::with_vectors(vector_bits)
        }
    }

    /// Whether the processor has a feature, by LLVM's name without a sign.
    pub fn has(&self, feature: &str) -> bool {
        self.features.split(',').any(|f| f.strip_prefix('+') == Some(feature))
    }
}

/// A level of x86-64 as the psABI defines it ("System V Application Binary Interface, AMD64", table 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Level {
    V2,
    V3,
    V4,
}

/// Each level's name, which is LLVM's for a processor of it, and LLVM's features that it adds to those before it.
const LEVELS: [(Level, &str, &[&str]); 3] = [
    (Level::V2, "x86-64-v2", &["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"]),
    (Level::V3, "x86-64-v3", &["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]),
    (Level::V4, "x86-64-v4", &["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"]),
];

/// What every x86-64 has.
const BASELINE: [&str; 8] = ["64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87"];

impl Level {
    /// The level of that name.
    pub fn named(name: &str) -> Option<Level> {
        LEVELS.iter().find(|(_, known, _)| *known == name).map(|(level, ..)| *level)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        LEVELS[self as usize].1
    }
}

impl Target {
    /// The processor as one of that level, with nothing beyond; None if it is none.
    pub fn at_level(&self, level: Level) -> Option<Target> {
        let levels = &LEVELS[..=level as usize];
        let added = || levels.iter().flat_map(|(.., features)| features.iter());
        if !added().all(|feature| self.has(feature)) {
            return None;
        }
        let is_kept = |feature: &str| BASELINE.contains(&feature) || added().any(|known| *known == feature);
        let features: Vec<String> = (self.features.split(','))
            .filter_map(|feature| feature.strip_prefix(['+', '-']))
            .map(|name| format!("{}{name}", if is_kept(name) && self.has(name) { '+' } else { '-' }))
            .collect();
        let (_, cpu, _) = LEVELS[level as usize];
        Some(Target { cpu: cpu.to_owned(), features: features.join(","), threads: self.threads })
    }
}

/// All that generated code takes into account and that differs between processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetFacts {
    /// Bits of a vector register.
    pub vector_bits: u32,
    /// Whether it has AVX-512: in registers of 512 bits, 1/sqrt(x) to 14 bits and m 2^k are instructions.
    pub avx512: bool,
    /// Whether it permutes bytes of two registers, and so 16 bits, as AVX-512 does words (VBMI).
    pub permutes_bytes: bool,
    /// Whether a product and a sum are one instruction, which rounds once.
    pub fuses: bool,
    /// Whether LLVM loads elements of 32 bits and more from addresses of lanes by an instruction, rather than one by one.
    pub gathers: bool,
    /// The same of stores.
    pub scatters: bool,
    /// Bytes of a cache line.
    pub cache_line: u64,
    /// Shorter stores past the caches would fill a cache line in too many steps.
    pub least_streamed_bytes: u64,
    /// What decides between scalar code and packs.
    pub costs: Costs,
}

/// What instructions cost, in quarters of a cycle: how long they keep the processor busy, and, as `latency`, how long it takes
/// until others can use their results. Only proportions matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A simple scalar instruction.
    pub scalar: f64,
    /// A simple vector instruction on one register.
    pub vector: f64,
    /// A load or store, of whatever width.
    pub access: f64,
    /// One lane's part of a gather or scatter.
    pub gathered: f64,
    /// The same of elements narrower than words, which are picked out of these, and where each lane goes through a place of its own in
    /// memory, a row, at the same pace: of as many lines as there are lanes, few stay in the cache until the next elements are accessed.
    pub gathered_slowly: f64,
    /// One lane's part of what is instantiated for each, without the operation itself.
    pub instance: f64,
    /// A division or square root, for each register.
    pub division: f64,
    /// A branch that goes now here, now there.
    pub mispredicted: f64,
    /// Instructions that wait for others and are looked beyond: so many of what comes next are begun meanwhile.
    pub window: f64,
    /// Of results.
    pub latency: Latencies,
}

/// Quarters of a cycle until a result is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Of a simple operation on integers.
    pub simple: f64,
    /// Of a product of integers.
    pub product: f64,
    /// Of such in a vector.
    pub vector_product: f64,
    /// Of an operation on floats, or a conversion.
    pub float: f64,
    /// Of a division or square root.
    pub division: f64,
    /// Of a load.
    pub load: f64,
    /// Of a gather.
    pub gather: f64,
    /// Of the lanes that are left in a loop: a comparison of those that were.
    pub mask: f64,
}

impl Costs {
    /// With registers of so many bits. Without AVX-512 there are no scatters, and masks are taken apart.
    const fn with_vectors(bits: u32) -> Costs {
        if bits < 512 { Costs { gathered: Costs::ZEN.gathered_slowly, ..Costs::ZEN } } else { Costs::ZEN }
    }

    /// As measured on AVX-512 machines of the Zen family, and on Sapphire Rapids, which differs little. Zen 5 gathers 16 lanes in 12 cycles
    /// from the first cache and scatters them in 16.
    pub const ZEN: Costs = Costs {
        scalar: 1.0,
        vector: 2.0,
        access: 2.0,
        gathered: 5.0,
        gathered_slowly: 9.0,
        instance: 12.0,
        division: 20.0,
        mispredicted: 8.0,
        window: 100.0,
        latency: Latencies {
            simple: 4.0,
            product: 12.0,
            vector_product: 28.0,
            float: 16.0,
            division: 48.0,
            load: 20.0,
            gather: 90.0,
            mask: 16.0,
        },
    };
}

impl TargetFacts {
    /// A processor with such vectors that is like others else.
    pub fn with_vectors(vector_bits: u32) -> Self {
        TargetFacts {
            vector_bits,
            avx512: false,
            permutes_bytes: false,
            fuses: vector_bits > 128,
            gathers: vector_bits > 256,
            scatters: vector_bits > 256,
            cache_line: 64,
            least_streamed_bytes: 32,
            costs: Costs::with_vectors(vector_bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_takes_away_what_is_beyond_it() {
        let features = "+sse2,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave,+cx16,+popcnt,+sahf,+sse3,+sse4.1,\
                        +sse4.2,+ssse3,+avx512f,-avx512fp16,+aes";
        let host = Target { cpu: "odd".into(), features: features.into(), threads: 3 };
        let level = |name: &str| host.at_level(Level::named(name).expect("a level"));
        let v3 = level("x86-64-v3").expect("it is one");
        assert_eq!((v3.cpu.as_str(), v3.threads, v3.facts().vector_bits), ("x86-64-v3", 3, 256));
        assert!(v3.has("avx2") && v3.has("sse2") && !v3.has("avx512f") && !v3.has("aes"));
        assert!(v3.features.ends_with("-avx512f,-avx512fp16,-aes"), "{}", v3.features);
        let costs = v3.facts().costs;
        assert!(costs.gathered == costs.gathered_slowly && costs.gathered > Costs::ZEN.gathered);
        let v2 = level("x86-64-v2").expect("it is one");
        assert_eq!((v2.facts().vector_bits, v2.facts().fuses), (128, false));
        assert_eq!(level("x86-64-v4"), None);
        assert_eq!(Level::named("x86-64-v5"), None);
    }
}
