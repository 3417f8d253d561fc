//! Contexts: devices that share memory objects, and the application's error callback.

use crate::error::{Result, Status};
use crate::execute::launch::Place;
use crate::isolation::Isolation;
use crate::log;
use crate::memory::pool::Pool;
use crate::memory::svm::Svm;
use crate::platform::device::Device;
use crate::queue::on_device::DeviceQueues;
use crate::trace;
use spirula_service::shared::Shared;
use std::cell::Cell;
use std::fmt::Display;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

/// Called with what went wrong: clCreateContext's `pfn_notify`.
pub type ErrorCallback = Box<dyn Fn(&str) + Send + Sync>;

/// A `cl_context`.
pub struct Context {
    /// As given, in order.
    pub devices: Vec<Arc<Device>>,
    /// CL_CONTEXT_PROPERTIES: pairs and the closing zero as the application gave them; empty when it gave NULL.
    pub properties: Vec<isize>,
    /// Where kernels run.
    pub(crate) place: Place,
    /// For what kernels use.
    pub(crate) memory: Pool,
    /// clSVMAlloc's memory.
    pub svm: Svm,
    /// Queues on its devices, and their events.
    pub device_queues: DeviceQueues,
    listener: Weak<Listener>,
}

/// Whom a context tells of errors and, in the end, of its end. The application's own context object owns it. Whoever is
/// about to tell something holds it too: "if a context callback function was specified when context was created, it will
/// not be called after any context destructor callback is called".
#[derive(Default)]
pub struct Listener {
    notify: Option<ErrorCallback>,
    destructors: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Context {
    /// `devices` must not be empty (CL_INVALID_VALUE is the caller's check). A compiler is started in the background: who
    /// makes a context will build a program for it.
    /// CL_OUT_OF_RESOURCES if kernels are to be isolated, or checked, and can't be.
    pub fn new(
        devices: Vec<Arc<Device>>,
        properties: Vec<isize>,
        listener: &Arc<Listener>,
    ) -> Result<Arc<Context>> {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            spirula_service::cache_problem()
                .inspect(|why| log::warn(format_args!("no programs are kept: {why}")));
        });
        trace::start();
        spirula_service::warm_up();
        let settings = spirula_service::settings::get();
        static UNKNOWN: Once = Once::new();
        UNKNOWN.call_once(|| {
            for name in &settings.unknown_checks {
                eprintln!("spirula: SPIRULA_CHECK: there is no check `{name}`; there are memory, races, barriers, arithmetic, uninitialized, nan, and all but that");
            }
        });
        let place = place(&devices).inspect_err(|error| {
            log::error(error);
            listener.tell(&error.to_string());
        })?;
        let memory = place.memory.clone();
        Ok(Arc::new(Context {
            devices,
            properties,
            svm: Svm::new(memory.clone()),
            device_queues: DeviceQueues::new(memory.clone()),
            place,
            memory,
            listener: Arc::downgrade(listener),
        }))
    }

    /// Whom to tell; None when the application has released the context.
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        self.listener.upgrade()
    }

    /// Writes what went wrong to the log and tells the application, on this thread, which must hold no lock.
    pub fn report(&self, message: impl Display) {
        let message = message.to_string();
        log::error(&message);
        self.listener().inspect(|listener| listener.tell(&message));
    }

    /// The first device with whose limits all agree: those whose pointers have 32 bits have the lowest ones, and all others are
    /// the platform's one, or parts of it.
    pub fn device(&self) -> &Arc<Device> {
        self.devices.iter().find(|device| device.info.addresses.is_linear()).unwrap_or(&self.devices[0])
    }

    /// Whether any of its devices has shared virtual memory.
    pub fn shares_addresses(&self) -> bool {
        self.devices.iter().any(|device| device.info.shares_addresses())
    }

    /// A device of each kind, all devices of which run the same code.
    pub fn kinds(&self) -> Vec<Arc<Device>> {
        let mut kinds: Vec<Arc<Device>> = Vec::new();
        for device in &self.devices {
            if kinds.iter().all(|other| other.info.addresses != device.info.addresses) {
                kinds.push(device.clone());
            }
        }
        kinds
    }
}

/// Where kernels of a context run that has these devices, all in the same memory: what lies in a linear one has addresses, too.
fn place(devices: &[Arc<Device>]) -> Result<Place> {
    let Some(info) = devices.iter().map(|device| &device.info).max_by_key(|info| info.addresses.is_linear())
    else {
        return Ok(Place::default());
    };
    if spirula_service::settings::get().compiler.checks.any() && (info.isolated || info.addresses.is_linear())
    {
        let why = match info.isolated {
            true => "SPIRULA_CHECK: kernels can't be checked in the isolated mode; unset SPIRULA_ISOLATE",
            false => {
                "SPIRULA_CHECK: kernels can't be checked on a device of 32 bits; have SPIRULA_DEVICES name cpu64"
            }
        };
        // Who asked for checks reads them there.
        eprintln!("spirula: {why}");
        return Err(Status::OutOfResources.because(why));
    }
    if info.isolated {
        let isolation = Isolation::new(info.global_mem_size, info.addresses)?;
        let memory = Pool::new(Some(isolation.shared().clone()));
        return Ok(Place::new(Some(isolation), memory));
    }
    if !info.addresses.is_linear() {
        return Ok(Place::default());
    }
    let shared = Shared::linear().map_err(|error| {
        Status::OutOfResources.because(format!("no addresses for the memory of a device of 32 bits: {error}"))
    })?;
    Ok(Place::new(None, Pool::new(Some(shared))))
}

impl Listener {
    /// For clCreateContext's `pfn_notify`.
    pub fn new(notify: Option<ErrorCallback>) -> Arc<Listener> {
        Arc::new(Listener { notify, destructors: Mutex::default() })
    }

    /// clSetContextDestructorCallback: called when nobody has the context any more, last registered first.
    pub fn on_destroy(&self, callback: Box<dyn FnOnce() + Send>) {
        self.destructors.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
    }

    /// Calls the application's callback, unless it is at work on this thread: it would be told of its own errors for ever.
    pub(crate) fn tell(&self, message: &str) {
        thread_local! {
            static TELLING: Cell<bool> = const { Cell::new(false) };
        }
        if let Some(notify) = &self.notify
            && !TELLING.replace(true)
        {
            notify(message);
            TELLING.set(false);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let destructors = self.destructors.get_mut().unwrap_or_else(PoisonError::into_inner);
        destructors.drain(..).rev().for_each(|destructor| destructor());
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("devices", &self.devices.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;
    use std::sync::mpsc::{Sender, channel};

    /// A context, what keeps it, and where it tells what happens.
    fn context(sender: Sender<String>) -> (Arc<Context>, Arc<Listener>) {
        let told = Mutex::new(sender.clone());
        let tell = move |message: &str| told.lock().unwrap().send(message.into()).unwrap();
        let listener = Listener::new(Some(Box::new(tell)));
        for number in [1, 2] {
            let sender = sender.clone();
            listener.on_destroy(Box::new(move || sender.send(format!("gone {number}")).unwrap()));
        }
        (Context::new(Platform::get().devices().to_vec(), Vec::new(), &listener).unwrap(), listener)
    }

    #[test]
    fn nothing_is_told_after_the_end() {
        let (sender, receiver) = channel();
        let (context, listener) = context(sender);
        context.report("first");
        let about_to_tell = context.listener().unwrap();
        drop(listener);
        about_to_tell.tell("second");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["first", "second"]);
        drop(about_to_tell);
        context.report("third");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["gone 2", "gone 1"]);
    }

    #[test]
    fn errors_of_the_callback_itself_are_not_told_to_it() {
        let (sender, receiver) = channel();
        let sender = Mutex::new(sender);
        let listener = Arc::new_cyclic(|own: &Weak<Listener>| {
            let own = own.clone();
            let tell = move |message: &str| {
                sender.lock().unwrap().send(message.to_string()).unwrap();
                own.upgrade().unwrap().tell("an error in the callback");
            };
            Listener { notify: Some(Box::new(tell)), destructors: Mutex::default() }
        });
        listener.tell("first");
        listener.tell("second");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["first", "second"]);
    }
}
