//! What the application's side and the compiler process say to each other and agree upon: options, settings, target,
//! what a compilation yields, the launch ABI, and the frames of their conversation. Data only; nobody's objects.

pub mod address_bits;
pub mod bundle;
pub mod check;
pub mod extensions;
pub mod identity;
pub mod image_formats;
pub mod inputs;
pub mod math_options;
pub mod options;
pub mod printf;
pub mod program;
pub mod protocol;
pub mod settings;
pub mod spirv;
pub mod target;
pub mod tier;
pub mod translation;

pub use spirula_builtins::enqueue;
pub use spirula_builtins::image::{ImageDescriptor, encoded as encoded_texel};
pub use spirula_builtins::pipe::{self, Pipe};
