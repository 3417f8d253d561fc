//! Images: the numbers of channel orders and types.

/// CL_RGBA.
pub(super) const RGBA: u32 = 0x10B5;
pub(super) const FLOAT: u32 = 0x10DE;

/// Channel types, from CL_SNORM_INT8 on.
pub(super) const SNORM_INT8: u32 = 0x10D0;
pub(super) const SNORM_INT16: u32 = 0x10D1;
pub(super) const UNORM_INT8: u32 = 0x10D2;
pub(super) const UNORM_INT16: u32 = 0x10D3;
pub(super) const UNORM_SHORT_565: u32 = 0x10D4;
pub(super) const UNORM_SHORT_555: u32 = 0x10D5;
pub(super) const UNORM_INT_101010: u32 = 0x10D6;
pub(super) const SIGNED_INT8: u32 = 0x10D7;
pub(super) const SIGNED_INT16: u32 = 0x10D8;
pub(super) const SIGNED_INT32: u32 = 0x10D9;
pub(super) const UNSIGNED_INT8: u32 = 0x10DA;
pub(super) const UNSIGNED_INT16: u32 = 0x10DB;
pub(super) const UNSIGNED_INT32: u32 = 0x10DC;
pub(super) const HALF_FLOAT: u32 = 0x10DD;

/// Channel orders: CL_R, CL_A, CL_RG, ….
pub(super) const R: u32 = 0x10B0;
pub(super) const A: u32 = 0x10B1;
pub(super) const RG: u32 = 0x10B2;
pub(super) const RA: u32 = 0x10B3;
pub(super) const RGB: u32 = 0x10B4;
pub(super) const BGRA: u32 = 0x10B6;
pub(super) const ARGB: u32 = 0x10B7;
pub(super) const INTENSITY: u32 = 0x10B8;
pub(super) const LUMINANCE: u32 = 0x10B9;
/// CL_Rx.
pub(super) const RX: u32 = 0x10BA;
pub(super) const RGX: u32 = 0x10BB;
pub(super) const RGBX: u32 = 0x10BC;
pub(super) const DEPTH: u32 = 0x10BD;
pub(super) const SRGBX: u32 = 0x10C0;
pub(super) const SRGBA: u32 = 0x10C1;
pub(super) const SBGRA: u32 = 0x10C2;
