//! Events: a command's progress from queued to complete, its times, who waits for it and who is told.

use super::callbacks;
use super::front::Place;
use crate::command::CommandType;
use crate::context::Context;
use crate::error::{Result, Status, code_name};
use crate::execute::tiers::Tiers;
use crate::machine::timer;
use crate::trace;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// `cl_event_info`'s execution status: these values, or a negative error code.
pub mod status {
    /// CL_COMPLETE.
    pub const COMPLETE: i32 = 0;
    /// CL_RUNNING.
    pub const RUNNING: i32 = 1;
    /// CL_SUBMITTED.
    pub const SUBMITTED: i32 = 2;
    /// CL_QUEUED.
    pub const QUEUED: i32 = 3;
}

/// Who runs commands: what a queue is to its events, and to those that its commands wait for.
pub(crate) trait Runner: Send + Sync {
    /// Has the commands looked through that can run by now.
    fn wake(self: Arc<Self>);
    /// Tells which commands waited for an event that has ended; [`Runner::wake`] follows.
    fn call(&self, places: &[Place]);
    /// Runs commands on this thread until `event` has ended, or until a command must wait for others or must not run here.
    fn help_until(self: Arc<Self>, event: &Event);
}

/// A `cl_event`: a command's or a user's.
pub struct Event {
    /// CL_EVENT_CONTEXT.
    pub context: Arc<Context>,
    /// CL_EVENT_COMMAND_TYPE.
    pub command_type: CommandType,
    /// Who runs the command; None for user events.
    runner: Option<Weak<dyn Runner>>,
    status: AtomicI32,
    /// Queued, submitted, started, complete, and, if it has children, ended; if the queue profiles.
    times: Option<[AtomicU64; 5]>,
    /// The kernel's code whose launch it is; if the queue profiles.
    launched: Option<Weak<Tiers>>,
    audience: Mutex<Audience>,
    ended: Condvar,
}

/// Who wants to know of an event's progress.
#[derive(Default)]
struct Audience {
    waiting: usize,
    /// Out-of-order queues with commands that wait for this event, and the places of those that have come so far.
    queues: Vec<(Weak<dyn Runner>, Vec<Place>)>,
    callbacks: Vec<(i32, StatusCallback)>,
}

/// Called with the status that was reached, or the error.
pub type StatusCallback = Box<dyn FnOnce(i32) + Send>;

/// CL_PROFILING_COMMAND_*, in ns of [`crate::machine::timer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Profile {
    pub queued: u64,
    pub submit: u64,
    pub start: u64,
    pub end: u64,
    pub complete: u64,
}

impl Event {
    /// clCreateUserEvent; its status is SUBMITTED.
    pub fn user(context: &Arc<Context>) -> Arc<Event> {
        Arc::new(Event::new(context, CommandType::User, None, status::SUBMITTED, false))
    }

    /// The event of a command that has just been queued.
    pub(crate) fn of_command(
        context: &Arc<Context>,
        command_type: CommandType,
        runner: Weak<dyn Runner>,
        profiling: bool,
        launched: Option<&Arc<Tiers>>,
    ) -> Arc<Event> {
        let mut event = Event::new(context, command_type, Some(runner), status::QUEUED, profiling);
        event.launched = launched.filter(|_| profiling).map(Arc::downgrade);
        event.stamp(status::QUEUED);
        Arc::new(event)
    }

    fn new(
        context: &Arc<Context>,
        command_type: CommandType,
        runner: Option<Weak<dyn Runner>>,
        status: i32,
        profiling: bool,
    ) -> Event {
        Event {
            context: context.clone(),
            command_type,
            runner,
            status: AtomicI32::new(status),
            times: profiling.then(Default::default),
            launched: None,
            audience: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// clSetUserEventStatus. Errors: CL_INVALID_EVENT for a command's event, CL_INVALID_VALUE for a positive status,
    /// CL_INVALID_OPERATION when set before.
    pub fn set_user_status(&self, status: i32) -> Result<()> {
        if self.command_type != CommandType::User {
            return Err(Status::InvalidEvent.because("only a user event's status can be set"));
        }
        if status > status::COMPLETE {
            return Err(Status::InvalidValue.because(format!("a user event can't have the status {status}")));
        }
        match self.advance(status) {
            true => Ok(()),
            false => Err(Status::InvalidOperation.because("the user event's status was set before")),
        }
    }

    /// CL_EVENT_COMMAND_EXECUTION_STATUS. Asking is as good as a flush of its queue, so that who polls sees the end.
    pub fn status(&self) -> i32 {
        self.flush();
        self.now()
    }

    fn now(&self) -> i32 {
        // Acquire: who sees the end sees what the command wrote.
        self.status.load(Ordering::Acquire)
    }

    /// Complete or failed.
    pub(crate) fn has_ended(&self) -> bool {
        self.now() <= status::COMPLETE
    }

    /// Makes sure that the command's queue works.
    pub(crate) fn flush(&self) {
        if !self.has_ended()
            && let Some(runner) = self.runner.as_ref().and_then(Weak::upgrade)
        {
            runner.wake();
        }
    }

    /// Has the queue look for commands that are ready when this event has ended.
    pub(crate) fn wake_at_end(&self, queue: Weak<dyn Runner>) {
        let mut audience = self.audience();
        if !self.has_ended() && !audience.queues.iter().any(|(known, _)| known.ptr_eq(&queue)) {
            audience.queues.push((queue, Vec::new()));
        }
    }

    /// Has a command called when this event ends. False if it has ended.
    pub(crate) fn call_at_end(&self, queue: &Weak<dyn Runner>, place: Place) -> bool {
        let mut audience = self.audience();
        if self.has_ended() {
            return false;
        }
        match audience.queues.iter_mut().find(|(known, _)| known.ptr_eq(queue)) {
            Some((_, places)) => places.push(place),
            None => audience.queues.push((queue.clone(), vec![place])),
        }
        true
    }

    /// Waits until the status is COMPLETE (Ok) or negative (Err with it). This thread runs the queue's commands meanwhile if
    /// nobody else does.
    pub fn wait(&self) -> Result<(), i32> {
        if self.has_ended() {
            return self.block();
        }
        let _span = trace::span("wait", || format!("wait for {}", self.command_type.name()));
        if let Some(runner) = self.runner.as_ref().and_then(Weak::upgrade) {
            runner.help_until(self);
        }
        self.block()
    }

    /// As [`Event::wait`], but only waits.
    pub(crate) fn block(&self) -> Result<(), i32> {
        if !self.has_ended() {
            let mut audience = self.audience();
            audience.waiting += 1;
            while !self.has_ended() {
                audience = self.ended.wait(audience).unwrap_or_else(PoisonError::into_inner);
            }
            audience.waiting -= 1;
        }
        match self.now() {
            status::COMPLETE => Ok(()),
            error => Err(error),
        }
    }

    /// clGetEventProfilingInfo. CL_PROFILING_INFO_NOT_AVAILABLE without CL_QUEUE_PROFILING_ENABLE, before completion,
    /// and for user events.
    pub fn profile(&self) -> Result<Profile> {
        let missing = |why: &str| Status::ProfilingInfoNotAvailable.because(why);
        let times = self.times.as_ref().ok_or_else(|| missing("the event's queue doesn't profile"))?;
        if self.now() != status::COMPLETE {
            return Err(missing("the command has not completed"));
        }
        if let Some(tiers) = self.launched.as_ref().and_then(Weak::upgrade) {
            tiers.times_were_read();
        }
        let [queued, submit, start, complete, own_end] =
            times.each_ref().map(|time| time.load(Ordering::Relaxed));
        let end = if own_end == 0 { complete } else { own_end };
        Ok(Profile { queued, submit, start, end, complete })
    }

    /// clSetEventCallback: `callback` gets the status when it is reached, at once if it was already (an error counts as
    /// COMPLETE reached). Called on a thread of its own. CL_INVALID_VALUE for a `trigger` other than SUBMITTED,
    /// RUNNING, COMPLETE.
    pub fn on_status(&self, trigger: i32, callback: StatusCallback) -> Result<()> {
        if !(status::COMPLETE..=status::SUBMITTED).contains(&trigger) {
            return Err(Status::InvalidValue.because(format!("a callback for the status {trigger}")));
        }
        let mut audience = self.audience();
        if self.now() <= trigger {
            callbacks::call(self.told(trigger), callback);
        } else {
            audience.callbacks.push((trigger, callback));
        }
        drop(audience);
        self.flush();
        Ok(())
    }

    /// What a callback for `trigger` hears: that status, or the error.
    fn told(&self, trigger: i32) -> i32 {
        let now = self.now();
        if now < 0 { now } else { trigger }
    }

    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time of reaching `status` (the end for errors).
    fn stamp(&self, status: i32) {
        if let Some(times) = &self.times {
            let index = (status::QUEUED - status.max(status::COMPLETE)) as usize;
            times[index].store(timer(), Ordering::Relaxed);
        }
    }

    /// Notes that its kernel has ended, which was not to be complete before those are that it enqueued.
    pub(crate) fn kernel_ended(&self) {
        if let Some(times) = &self.times {
            times[4].store(timer(), Ordering::Relaxed);
        }
    }

    /// Moves on to RUNNING, by way of SUBMITTED.
    pub(crate) fn begin(&self) {
        if self.now() > status::SUBMITTED {
            self.stamp(status::SUBMITTED);
        }
        self.advance(status::RUNNING);
    }

    /// Moves on to `status`, wakes who waits and calls back. False if it has ended or got there before.
    pub(crate) fn advance(&self, status: i32) -> bool {
        let mut audience = self.audience();
        if self.has_ended() || status >= self.now() {
            return false;
        }
        self.stamp(status);
        self.status.store(status, Ordering::Release);
        if status <= status::COMPLETE && audience.waiting > 0 {
            self.ended.notify_all();
        }
        let queues =
            if status <= status::COMPLETE { std::mem::take(&mut audience.queues) } else { Vec::new() };
        if !audience.callbacks.is_empty() {
            let mut due =
                audience.callbacks.extract_if(.., |(trigger, _)| status <= *trigger).collect::<Vec<_>>();
            // Those for earlier statuses first.
            due.sort_by_key(|(trigger, _)| std::cmp::Reverse(*trigger));
            due.into_iter().for_each(|(trigger, callback)| callbacks::call(self.told(trigger), callback));
        }
        drop(audience);
        for (queue, places) in queues {
            let Some(queue) = queue.upgrade() else { continue };
            queue.call(&places);
            queue.wake();
        }
        true
    }
}

/// clWaitForEvents. CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if one failed, after all have ended. Empty list and
/// mixed contexts (CL_INVALID_VALUE, CL_INVALID_CONTEXT) are errors.
pub fn wait_for_all(events: &[Arc<Event>]) -> Result<()> {
    let Some(first) = events.first() else {
        return Err(Status::InvalidValue.because("an empty list of events"));
    };
    if events.iter().any(|event| !Arc::ptr_eq(&event.context, &first.context)) {
        return Err(Status::InvalidContext.because("events of different contexts"));
    }
    events.iter().for_each(|event| event.flush());
    let failed = events.iter().filter_map(|event| event.wait().err()).fold(None, |_, code| Some(code));
    match failed {
        Some(code) => Err(Status::ExecStatusErrorForEventsInWaitList
            .because(format!("a command that was waited for ended with {}", code_name(code)))),
        None => Ok(()),
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = (self.command_type, self.now());
        f.debug_tuple("Event").field(&fields.0).field(&fields.1).finish()
    }
}
