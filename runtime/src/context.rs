//! Contexts: devices that share memory objects, and the application's error callback.

use crate::memory::svm::Svm;
use crate::platform::device::Device;
use std::sync::Arc;

/// Called with a message and, possibly, private data when something fails asynchronously (clCreateContext's
/// `pfn_notify`).
pub type ErrorCallback = Box<dyn Fn(&str) + Send + Sync>;

/// A `cl_context`.
pub struct Context {
    /// As given, in order.
    pub devices: Vec<Arc<Device>>,
    /// CL_CONTEXT_PROPERTIES: pairs and the closing zero as the application gave them; empty when it gave NULL.
    pub properties: Vec<isize>,
    /// clSVMAlloc's memory.
    pub svm: Svm,
    notify: Option<ErrorCallback>,
}

impl Context {
    /// `devices` must not be empty (CL_INVALID_VALUE is the caller's check). A compiler is started in the background: who
    /// makes a context will build a program for it.
    pub fn new(
        devices: Vec<Arc<Device>>,
        properties: Vec<isize>,
        notify: Option<ErrorCallback>,
    ) -> Arc<Context> {
        spirula_service::warm_up();
        Arc::new(Context { devices, properties, svm: Svm::default(), notify })
    }

    /// Tells the application, if it wants to know.
    pub fn report(&self, message: &str) {
        if let Some(notify) = &self.notify {
            notify(message);
        }
    }

    /// The first device, with whose limits all agree: they are the platform's one, or parts of it.
    pub fn device(&self) -> &Arc<Device> {
        &self.devices[0]
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("devices", &self.devices.len()).finish_non_exhaustive()
    }
}
