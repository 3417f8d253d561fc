//! Command queues, each with a thread of its own that a channel feeds.
//!
//! In order, a command waits for its events where it stands. Out of order, the commands that have come form a backlog, of
//! which the first that waits for nothing runs (`front.rs`); an event that ends wakes the queues that wait for it.
//!
//! Whoever holds the lock of the channel's end runs commands: usually the queue's thread, but also a thread that waits
//! for one of them (clFinish, clWaitForEvents, a blocking read), which spares two thread switches. Short commands don't
//! even wake the queue's thread before somebody flushes, waits, asks, or as many have come together as take [`DEFERRED_NS`].

mod callbacks;
pub mod event;
mod front;
pub mod on_device;
pub mod semaphore;

use crate::command::{Command, CommandType, Work};
use crate::context::Context;
use crate::error::{Error, Result, Status, code_name};
use crate::execute::pace::WORTH_WAKING_NS;
use crate::execute::scheduler::{SOON_NS, STACK_SIZE};
use crate::log;
use crate::machine::{affinity, timer};
use crate::platform::device::Device;
use crate::trace;
use crossbeam::channel::{Receiver, Sender, unbounded};
use crossbeam::queue::SegQueue;
use event::{Event, Runner, status};
use front::{Front, Place};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::Thread;

/// Short commands may wait for a flush that are expected to take so long together: who waits for them runs them himself, faster than
/// another thread that gets each from this one's cache.
const DEFERRED_NS: u64 = 1_000_000;
/// How often an idle queue thread, or one that waits for an event, looks before it sleeps.
const SPINS: u32 = 500;

/// A `cl_command_queue`. Dropping it lets what is queued finish in the background.
#[derive(Debug)]
pub struct Queue {
    /// CL_QUEUE_CONTEXT.
    pub context: Arc<Context>,
    /// CL_QUEUE_DEVICE.
    pub device: Arc<Device>,
    /// CL_QUEUE_PROFILING_ENABLE.
    pub profiling: bool,
    /// CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE.
    pub out_of_order: bool,
    executor: Arc<Executor>,
    tail: Mutex<Tail>,
}

/// The end at which commands are queued.
#[derive(Debug)]
struct Tail {
    commands: Sender<Pending>,
    last: Option<Arc<Event>>,
}

impl Queue {
    /// clCreateCommandQueue.
    pub fn new(
        context: &Arc<Context>,
        device: &Arc<Device>,
        profiling: bool,
        out_of_order: bool,
    ) -> Result<Arc<Queue>> {
        let (commands, receiver) = unbounded();
        let executor = Arc::new_cyclic(|own| Executor {
            own: own.clone(),
            called: SegQueue::new(),
            device: device.clone(),
            commands: receiver,
            out_of_order,
            front: Mutex::default(),
            worker: OnceLock::new(),
            starting: Mutex::new(()),
            reminded: AtomicBool::new(false),
            hesitates: AtomicBool::new(false),
            waited_for: AtomicBool::new(false),
            deferred_ns: AtomicU64::new(0),
            released: AtomicBool::new(false),
        });
        Ok(Arc::new(Queue {
            context: context.clone(),
            device: device.clone(),
            profiling,
            out_of_order,
            executor,
            tail: Mutex::new(Tail { commands, last: None }),
        }))
    }

    /// Queues a command that runs after `wait` and, in order, after what is queued. Errors: CL_INVALID_CONTEXT when an event or a
    /// memory object is of another context; with `blocking`, what the command itself ended with, or
    /// CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST.
    pub fn submit(&self, mut command: Command, wait: &[Arc<Event>], blocking: bool) -> Result<Arc<Event>> {
        let foreign = |context: &Arc<Context>| !Arc::ptr_eq(context, &self.context);
        if !command.is_of(&self.context) || wait.iter().any(|event| foreign(&event.context)) {
            return Err(
                Status::InvalidContext.because("the queue is of another context than its objects or events")
            );
        }
        // The application's threads run where they like.
        if command.work.has_kernels() && self.device.scheduler.bound().is_some() {
            command.anywhere = false;
        }
        // Before anything is queued: from here on the command runs, and nothing needs to be taken back. Who blocks can do without.
        if !(blocking && command.anywhere && wait.is_empty()) {
            self.executor.worker()?;
        }
        for event in wait {
            event.flush();
            if self.out_of_order {
                event.wake_at_end(self.executor());
            }
        }
        let launched = command.work.launched();
        let event =
            Event::of_command(&self.context, command.command_type, self.executor(), self.profiling, launched);
        let (expected_ns, anywhere) = (command.expected_ns, command.anywhere);
        let (queued, wait) = (trace::now(), wait.to_vec());
        let pending = Pending { command: Some(command), wait, ended: 0, event: event.clone(), queued };
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.last = Some(event.clone());
            // The executor holds the other end as long as this queue lives.
            let _ = tail.commands.send(pending);
        }
        if blocking {
            return match event.wait() {
                Ok(()) => Ok(event),
                Err(code) => {
                    let status = Status::from_code(code).unwrap_or(Status::OutOfResources);
                    let name = event.command_type.name();
                    Err(status.because(format!("the blocking {name} ended with {}", code_name(code))))
                }
            };
        }
        if expected_ns >= WORTH_WAKING_NS || self.executor.defer(expected_ns) >= DEFERRED_NS {
            // What nobody but the queue's thread may run can't wait.
            let woken = if anywhere { self.executor.wake_soon() } else { self.executor.wake_worker() };
            woken?;
        }
        Ok(event)
    }

    /// The executor as its events know it.
    fn executor(&self) -> Weak<dyn Runner> {
        let executor: Weak<Executor> = Arc::downgrade(&self.executor);
        executor
    }

    /// clFlush.
    pub fn flush(&self) -> Result<()> {
        match self.executor.commands.is_empty() {
            true => Ok(()),
            false => self.executor.wake_soon(),
        }
    }

    /// clFinish: returns when all commands have ended, well or not.
    pub fn finish(&self) -> Result<()> {
        if self.out_of_order {
            // A marker that waits for nothing else ends after all that is queued; it can't fail.
            return self.submit(Command::marker(), &[], true).map(|_| ());
        }
        let last = self.tail.lock().unwrap_or_else(PoisonError::into_inner).last.clone();
        // In order: when the last has ended, all have. How each ended is told by its event.
        if let Some(event) = last {
            let _ = event.wait();
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.executor.released.store(true, Ordering::SeqCst);
        if self.executor.worker.get().is_some() || !self.executor.commands.is_empty() {
            self.executor.try_wake();
        }
    }
}

/// The end of a queue at which commands are run.
#[derive(Debug)]
struct Executor {
    own: Weak<Executor>,
    /// Places of commands that waited for an event which has ended.
    called: SegQueue<Place>,
    device: Arc<Device>,
    commands: Receiver<Pending>,
    out_of_order: bool,
    /// Who holds the lock may run commands. Those in it were taken from the channel, but not run yet.
    front: Mutex<Front>,
    /// The queue's thread; begun when it is first needed.
    worker: OnceLock<Thread>,
    starting: Mutex<()>,
    /// Whether somebody will look after its commands in a moment.
    reminded: AtomicBool,
    /// Whether the thread is to leave them to others for a moment.
    hesitates: AtomicBool,
    /// Whether somebody waits who would have run commands, had the thread not been at it.
    waited_for: AtomicBool,
    /// How long the short commands are expected to take that have come since the thread was last woken.
    deferred_ns: AtomicU64,
    /// The queue is gone: its thread ends when nothing is left.
    released: AtomicBool,
}

impl Executor {
    /// A short command has come; how long all of them are expected to take.
    fn defer(&self, expected_ns: u64) -> u64 {
        self.deferred_ns.fetch_add(expected_ns, Ordering::Relaxed).saturating_add(expected_ns)
    }

    /// Has the queue's thread look for commands. CL_OUT_OF_HOST_MEMORY if there is none and it can't begin.
    fn wake_worker(self: &Arc<Self>) -> Result<()> {
        self.wake_hesitating(false)
    }

    /// The same; whether it is to leave them to others for a moment.
    fn wake_hesitating(self: &Arc<Self>, hesitates: bool) -> Result<()> {
        self.deferred_ns.store(0, Ordering::Relaxed);
        self.hesitates.store(hesitates, Ordering::SeqCst);
        self.worker()?.unpark();
        Ok(())
    }

    /// As [`Executor::wake_worker`], but in a moment, which a thread that is awake looks after, or else the queue's own: whoever queues a
    /// command and waits for it at once runs it himself, and has no use for another thread that takes the processor from a kernel's.
    fn wake_soon(self: &Arc<Self>) -> Result<()> {
        if self.reminded.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let own = self.own.clone();
        let look = move || own.upgrade().into_iter().for_each(|executor| executor.look_after_commands());
        if self.device.scheduler.remind(look) {
            self.deferred_ns.store(0, Ordering::Relaxed);
            return Ok(());
        }
        self.reminded.store(false, Ordering::SeqCst);
        self.wake_hesitating(true)
    }

    /// Lets others take the commands that have come, for a moment.
    fn hesitate(&self) {
        let until = timer() + SOON_NS;
        while !self.commands.is_empty() && timer() < until {
            // Who takes them leaves none without waking this thread.
            if self.try_front().is_none() {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Has the queue's thread take what nobody has taken by now. As long as somebody else is at it that is looked at again.
    fn look_after_commands(self: &Arc<Self>) {
        self.reminded.store(false, Ordering::SeqCst);
        if self.commands.is_empty() {
            return;
        }
        match self.try_front() {
            Some(front) => {
                drop(front);
                self.try_wake();
            }
            None => {
                if let Err(error) = self.wake_soon() {
                    log::error(format_args!("a queue that works only while it is waited for: {error}"));
                }
            }
        }
    }

    /// As [`Executor::wake_worker`] where nobody can be told of a failure: who waits runs the commands then.
    fn try_wake(self: &Arc<Self>) {
        if let Err(error) = self.wake_worker() {
            log::error(format_args!("a queue that works only while it is waited for: {error}"));
        }
    }

    fn worker(self: &Arc<Self>) -> Result<&Thread> {
        if let Some(worker) = self.worker.get() {
            return Ok(worker);
        }
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = self.worker.get() {
            return Ok(worker);
        }
        let executor = self.clone();
        let thread = std::thread::Builder::new()
            .name("spirula-queue".into())
            .stack_size(STACK_SIZE)
            .spawn(move || {
                executor.device.scheduler.bound().into_iter().for_each(affinity::bind);
                executor.serve();
            })
            .map_err(|error| Status::OutOfHostMemory.because(format!("no thread for a queue: {error}")))?;
        Ok(self.worker.get_or_init(|| thread.thread().clone()))
    }

    /// The queue's thread.
    fn serve(&self) {
        loop {
            if self.hesitates.swap(false, Ordering::SeqCst) {
                self.hesitate();
            }
            self.drain();
            if self.is_over() {
                return;
            }
            // Who came while this thread had the lock relies on it; see `help_until`.
            fence(Ordering::SeqCst);
            if self.commands.is_empty() || self.try_front().is_none() {
                // A kernel that this thread waited for may have used up a wake-up, but then `drain` looked again.
                std::thread::park();
            }
        }
    }

    /// No command is left, and none will come. (A thread that holds the lock wakes the queue's when it is done.)
    fn is_over(&self) -> bool {
        self.released.load(Ordering::SeqCst)
            && self.try_front().is_some_and(|front| front.is_empty())
            && self.commands.is_empty()
    }

    /// Runs commands until none is left, unless another thread is at it, which wakes this one if it leaves any behind. Then it looks for
    /// more for a while, unless somebody waits: he will also wait for the next, and can run that himself.
    fn drain(&self) {
        // Pairs with the fence in `help_until`: one of the two sees what the other left.
        fence(Ordering::SeqCst);
        let Some(mut front) = self.try_front() else { return };
        self.waited_for.store(false, Ordering::Relaxed);
        let mut idle = 0;
        while idle < SPINS {
            if let Some(pending) = self.next(&mut front, |_| true) {
                pending.run(&self.device);
                idle = 0;
            } else if self.waited_for.load(Ordering::Relaxed) {
                return;
            } else {
                std::hint::spin_loop();
                idle += 1;
            }
        }
    }

    fn try_front(&self) -> Option<MutexGuard<'_, Front>> {
        match self.front.try_lock() {
            Ok(front) => Some(front),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The command that is to run next, if there is one and it is `welcome`.
    fn next(&self, front: &mut Front, welcome: impl Fn(&Pending) -> bool) -> Option<Pending> {
        match self.out_of_order {
            true => {
                let own: Weak<dyn Runner> = self.own.clone();
                let call = |event: &Event, place| event.call_at_end(&own, place);
                front.take_ready(&self.commands, &self.called, call, welcome)
            }
            false => front.take_first(&self.commands, welcome),
        }
    }
}

impl Runner for Executor {
    fn call(&self, places: &[Place]) {
        places.iter().for_each(|&place| self.called.push(place));
    }

    fn wake(self: Arc<Self>) {
        self.try_wake();
    }

    fn help_until(self: Arc<Self>, event: &Event) {
        // Pairs with the fence in `serve`: either this finds the lock free, or who had it finds the command.
        fence(Ordering::SeqCst);
        match self.try_front() {
            Some(mut front) => {
                while !event.has_ended()
                    && let Some(pending) = self.next(&mut front, Pending::may_run_anywhere)
                {
                    pending.run(&self.device);
                }
                let left = !front.is_empty();
                drop(front);
                fence(Ordering::SeqCst);
                let releasing = self.released.load(Ordering::SeqCst) && self.worker.get().is_some();
                if left || !self.commands.is_empty() || releasing {
                    self.try_wake();
                } else {
                    self.deferred_ns.store(0, Ordering::Relaxed);
                }
            }
            // Who is at it looks for commands again when he has let go.
            None => self.waited_for.store(true, Ordering::Relaxed),
        }
        let mut spins = 0;
        while !event.has_ended() && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
        }
    }
}

/// A queued command. However it ends — even in a panic — its event does.
#[derive(Debug)]
struct Pending {
    command: Option<Command>,
    wait: Vec<Arc<Event>>,
    /// So many of these are known to have ended; counted out of order only.
    ended: usize,
    event: Arc<Event>,
    /// When it was queued, if that is to be told.
    queued: u64,
}

impl Pending {
    /// A marker or barrier without a list.
    fn waits_for_all(&self) -> bool {
        let watches = matches!(self.event.command_type, CommandType::Marker | CommandType::Barrier);
        watches && self.wait.is_empty()
    }

    /// It needs neither other queues nor the queue thread's stack.
    fn may_run_anywhere(&self) -> bool {
        self.command.as_ref().is_none_or(|command| command.anywhere)
            && self.wait.iter().all(|event| event.has_ended())
    }

    fn run(mut self, device: &Device) {
        // Who waits for nothing runs at once.
        if !self.wait.is_empty() {
            self.event.advance(status::SUBMITTED);
        }
        let name = self.event.command_type.name();
        trace::between("queued", name, self.queued);
        let failed = {
            let waits = !self.wait.is_empty();
            let _span = waits.then(|| trace::span("wait", || format!("{name} waits for its events")));
            let ended =
                self.wait.drain(..).map(|event| event.block().map_err(|code| (event.command_type, code)));
            ended.fold(Ok(()), Result::and)
        };
        let mut span = trace::span("command", || name);
        let Some(command) = self.command.take() else { return };
        if let Err((awaited, code)) = failed {
            // Its objects are released, and a mapping is undone, before anyone hears of the end.
            drop(command);
            let why = format!("a {} that it waited for ended with {}", awaited.name(), code_name(code));
            let error = Status::ExecStatusErrorForEventsInWaitList.because(why);
            // The application was told of what failed first, or has itself set the user event.
            log::error(self.failure(&error));
            self.event.advance(error.code());
            return;
        }
        command.work.wait_if_measured();
        self.event.begin();
        let ended = || self.event.kernel_ended();
        let result = catch_unwind(AssertUnwindSafe(|| perform(command.work, device, &ended)));
        let result = result.unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref())));
        if let Err(error) = &result {
            span.note("result", error);
        }
        drop(span);
        // With `work` went the objects, as above.
        match result {
            Ok(()) => self.event.advance(status::COMPLETE),
            Err(error) => self.fail(&error),
        };
    }

    /// Ends the command's event with an error, and tells the application why.
    fn fail(&self, error: &Error) -> bool {
        let message = self.failure(error);
        log::error(&message);
        if let Some(listener) = self.event.context.listener() {
            callbacks::run(Box::new(move || listener.tell(&message)));
        }
        self.event.advance(error.code())
    }

    fn failure(&self, error: &Error) -> String {
        format!("{} ended with {error}", self.event.command_type.name())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.event.has_ended() {
            drop(self.command.take());
            self.fail(&Status::OutOfResources.because("the command was dropped before it ran"));
        }
    }
}

fn perform(work: Work, device: &Device, ended: &dyn Fn()) -> Result<()> {
    match work {
        Work::Nothing => Ok(()),
        Work::Kernel(launch) => launch.run(device, ended),
        Work::Call(call) => call(device),
        Work::Batch(commands) => commands.into_iter().enumerate().try_for_each(|(number, command)| {
            let name = command.command_type.name();
            // Its kernels have all ended when it has.
            perform(command.work, device, &|| ())
                .map_err(|error| error.status.because(format!("command {number}, {name}: {}", error.detail)))
        }),
    }
}

#[cfg(test)]
mod tests;
