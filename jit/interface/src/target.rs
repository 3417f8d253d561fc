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
        TargetFacts {
            approximates_roots: self.has("avx512f"),
            fuses: self.has("fma"),
            ..TargetFacts::with_vectors(vector_bits)
        }
    }

    /// Whether the processor has a feature, by LLVM's name without a sign.
    pub fn has(&self, feature: &str) -> bool {
        self.features.split(',').any(|f| f.strip_prefix('+') == Some(feature))
    }
}

/// All that generated code takes into account and that differs between processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetFacts {
    /// Bits of a vector register.
    pub vector_bits: u32,
    /// Whether vectors of 16 floats have an approximation of 1/sqrt(x), of 14 bits.
    pub approximates_roots: bool,
    /// Whether a product and a sum are one instruction, which rounds once.
    pub fuses: bool,
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
    /// One lane's part of what is instantiated for each, without the operation itself.
    pub instance: f64,
    /// A division or square root, for each register.
    pub division: f64,
    /// A branch that goes now here, now there.
    pub mispredicted: f64,
    /// Instructions that are on their way at the same time.
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
}

impl Costs {
    /// As measured on AVX-512 machines of the Zen family, and on Sapphire Rapids, which differs little.
    pub const ZEN: Costs = Costs {
        scalar: 1.0,
        vector: 2.0,
        access: 2.0,
        gathered: 7.0,
        instance: 12.0,
        division: 20.0,
        mispredicted: 8.0,
        window: 256.0,
        latency: Latencies {
            simple: 4.0,
            product: 12.0,
            vector_product: 28.0,
            float: 16.0,
            division: 48.0,
            load: 20.0,
            gather: 90.0,
        },
    };
}

impl TargetFacts {
    /// A processor with such vectors that is like others else.
    pub fn with_vectors(vector_bits: u32) -> Self {
        TargetFacts {
            vector_bits,
            approximates_roots: false,
            fuses: vector_bits > 128,
            cache_line: 64,
            least_streamed_bytes: 32,
            costs: Costs::ZEN,
        }
    }
}
