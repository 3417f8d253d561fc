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
    /// Whether the processor has a feature, by LLVM's name without a sign.
    pub fn has(&self, feature: &str) -> bool {
        self.features.split(',').any(|f| f.strip_prefix('+') == Some(feature))
    }
}
