//! What the user's settings ask of the compiler. The service reads them from the environment; here they are values, so
//! that what a compilation yields depends on what it is given and on nothing else.

use crate::check::Checks;
use serde::{Deserialize, Serialize};

/// Settings that change what a build yields.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Settings {
    /// `SPIRULA_VECTOR_WIDTH`: lanes to use wherever possible, a power of two up to 64; 1 is scalar code. None lets the
    /// cost model choose.
    pub vector_width: Option<u32>,
    /// `SPIRULA_REMARKS`: the build log says what was decided for each kernel.
    pub remarks: bool,
    /// `SPIRULA_VERIFY`: every pass over Kernel IR is followed by the verifier.
    pub verify: bool,
    /// `SPIRULA_DEBUG`: functions have frame pointers, tell how they are unwound, and which lines of the source they are of if that is
    /// known.
    pub debug_info: bool,
    /// `SPIRULA_CHECK`: what is looked for in kernels while they run.
    pub checks: Checks,
}

/// Whether the verifier runs if nothing is said.
pub const VERIFY_BY_DEFAULT: bool = cfg!(debug_assertions);

impl Default for Settings {
    fn default() -> Self {
        Settings {
            vector_width: None,
            remarks: false,
            verify: VERIFY_BY_DEFAULT,
            debug_info: false,
            checks: Checks::NONE,
        }
    }
}
