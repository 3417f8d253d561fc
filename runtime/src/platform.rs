//! The platform: Spirula itself and its devices.

pub mod device;
pub(crate) mod extensions;

use device::Device;
use extensions::EXTENSIONS;
pub use extensions::Extension;
use spirula_service::settings;
use std::sync::{Arc, LazyLock};

/// What `clGetPlatformInfo` tells. CL_PLATFORM_PROFILE is FULL_PROFILE.
#[derive(Debug)]
pub struct Platform {
    devices: Vec<Arc<Device>>,
}

impl Platform {
    /// CL_PLATFORM_NAME.
    pub const NAME: &str = "Spirula";
    /// CL_PLATFORM_VENDOR.
    pub const VENDOR: &str = "The Spirula project";
    /// CL_PLATFORM_VERSION and CL_DEVICE_VERSION.
    pub const VERSION: &str = concat!("OpenCL 3.0 Spirula ", env!("CARGO_PKG_VERSION"));
    /// CL_PLATFORM_NUMERIC_VERSION and CL_DEVICE_NUMERIC_VERSION: major, minor, patch.
    pub const NUMERIC_VERSION: [u32; 3] = [3, 0, 0];
    /// CL_PLATFORM_ICD_SUFFIX_KHR.
    pub const ICD_SUFFIX: &str = "SPIRULA";
    /// CL_DRIVER_VERSION of its devices: names the sources too, for clients such as pyopencl keep program binaries under it,
    /// and would meet those that another build of Spirula refuses.
    pub const DRIVER_VERSION: &str = spirula_interface::identity::BUILD;

    /// The process's platform; the machine is looked at on the first call.
    pub fn get() -> &'static Platform {
        static PLATFORM: LazyLock<Platform> = LazyLock::new(|| {
            let devices = settings::get().devices.iter();
            Platform { devices: devices.map(|&addresses| Arc::new(Device::detect(addresses))).collect() }
        });
        &PLATFORM
    }

    /// The CPU as a device, or as several ones that differ in their pointers.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// CL_PLATFORM_EXTENSIONS: those of the platform itself, and those that all of its devices have.
    pub fn extensions(&self) -> &'static [Extension] {
        let lists = self.devices.iter().map(|device| device.info.extensions);
        // Each list has all that is in a shorter one.
        lists.min_by_key(|list| list.len()).unwrap_or(EXTENSIONS)
    }
}
