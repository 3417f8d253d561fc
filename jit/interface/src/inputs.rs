//! All that a compilation depends on besides the modules' bytes, as one value: the compiler reads nothing else, and whoever
//! keeps what it yielded keeps it under this.

use crate::identity;
use crate::options::CompileOptions;
use crate::settings::Settings;
use crate::target::Target;
use crate::tier::Tier;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Options, settings, target, tier and compiler of one compilation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inputs {
    /// The compiler's build; see [`identity::BUILD`].
    pub build: Cow<'static, str>,
    /// What the application asks.
    pub options: CompileOptions,
    /// What the user asks.
    pub settings: Settings,
    /// What code is generated for.
    pub target: Target,
    /// How the code is made; kernels that the baseline can't take are optimized in either.
    pub tier: Tier,
}

impl Inputs {
    /// For this build's compiler.
    pub fn new(options: CompileOptions, settings: Settings, target: Target, tier: Tier) -> Self {
        Inputs { build: Cow::Borrowed(identity::BUILD), options, settings, target, tier }
    }
}
