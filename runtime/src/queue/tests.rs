//! Tests of queues and events: order, wait lists, user events, failures, panics, callbacks, cost.

use super::*;
use crate::command::ndrange::ndrange;
use crate::command::{COMMAND_NS, CommandType, buffer};
use crate::context::Listener;
use crate::kernel::tests::{context, empty, info, kernel};
use crate::memory::{Mem, MemFlags};
use crate::queue::event::wait_for_all;
use std::slice::from_ref;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn queue(context: &Arc<Context>) -> Arc<Queue> {
    Queue::new(context, context.device(), true, false).unwrap()
}

/// A command of the queue's thread.
fn call(function: impl FnOnce() + Send + 'static) -> Command {
    Command::native(Box::new(function), &[])
}

/// A short command that whoever waits runs.
fn short(function: impl FnOnce() + Send + 'static) -> Command {
    Command { expected_ns: COMMAND_NS, anywhere: true, ..call(function) }
}

fn failing() -> Command {
    let work = |_: &Device| Err(Status::MapFailure.because("as the test wants"));
    Command { work: Work::Call(Box::new(work)), ..call(|| ()) }
}

const FAILED_WAIT: i32 = Status::ExecStatusErrorForEventsInWaitList as i32;

#[test]
fn commands_run_in_order_whoever_runs_them() {
    let context = context();
    let queue = queue(&context);
    let log = Arc::new(Mutex::new(Vec::new()));
    for number in 0..500 {
        let log = log.clone();
        let note = move || log.lock().unwrap().push(number);
        let command = if number % 3 == 0 { call(note) } else { short(note) };
        queue.submit(command, &[], number % 50 == 49).unwrap();
    }
    queue.finish().unwrap();
    assert!(log.lock().unwrap().iter().copied().eq(0..500));
}

#[test]
fn commands_wait_for_other_queues() {
    let context = context();
    let (a, b) = (queue(&context), queue(&context));
    let (sender, receiver) = mpsc::channel();
    let early = sender.clone();
    let first = a.submit(
        short(move || {
            std::thread::sleep(Duration::from_millis(20));
            early.send("a").unwrap();
        }),
        &[],
        false,
    );
    b.submit(short(move || sender.send("b").unwrap()), &[first.unwrap()], false).unwrap();
    b.finish().unwrap();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_user_event_holds_a_queue_back() {
    let context = context();
    let queue = queue(&context);
    let gate = Event::user(&context);
    let event = queue.submit(short(|| ()), from_ref(&gate), false).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    assert!(event.status() >= status::SUBMITTED);
    assert_eq!(gate.set_user_status(1).unwrap_err().status, Status::InvalidValue);
    gate.set_user_status(status::COMPLETE).unwrap();
    assert_eq!(event.wait(), Ok(()));
    assert_eq!(gate.set_user_status(status::COMPLETE).unwrap_err().status, Status::InvalidOperation);
    assert_eq!(event.set_user_status(0).unwrap_err().status, Status::InvalidEvent);
}

#[test]
fn failures_reach_those_who_wait_and_nobody_else() {
    let context = context();
    let queue = queue(&context);
    let failed = queue.submit(failing(), &[], false).unwrap();
    let dependent = queue.submit(short(|| panic!("must not run")), from_ref(&failed), false).unwrap();
    let next = queue.submit(short(|| ()), from_ref(&dependent), false).unwrap();
    let other = queue.submit(short(|| ()), &[], false).unwrap();
    queue.finish().unwrap();
    assert_eq!(failed.status(), Status::MapFailure.code());
    assert_eq!(
        (dependent.status(), next.status(), other.status()),
        (FAILED_WAIT, FAILED_WAIT, status::COMPLETE)
    );
    let waited = wait_for_all(&[other, failed.clone()]).unwrap_err();
    assert_eq!(waited.status, Status::ExecStatusErrorForEventsInWaitList);
    let blocking = queue.submit(short(|| ()), &[failed], true).unwrap_err();
    assert_eq!(blocking.status, Status::ExecStatusErrorForEventsInWaitList);
    assert_eq!(queue.submit(failing(), &[], true).unwrap_err().status, Status::MapFailure);
    let gate = Event::user(&context);
    let gated = queue.submit(short(|| ()), from_ref(&gate), false).unwrap();
    gate.set_user_status(-77).unwrap();
    assert_eq!(gated.wait(), Err(FAILED_WAIT));
}

#[test]
fn a_command_that_may_not_run_lets_go_of_its_objects_first() {
    struct Slow(Arc<AtomicBool>);
    impl Drop for Slow {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(20));
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let context = context();
    let (queue, gate, gone) = (queue(&context), Event::user(&context), Arc::default());
    let object = Slow(Arc::clone(&gone));
    let event = queue.submit(call(move || drop(object)), from_ref(&gate), false).unwrap();
    queue.flush().unwrap();
    gate.set_user_status(-1).unwrap();
    assert_eq!(event.wait(), Err(FAILED_WAIT));
    assert!(gone.load(Ordering::SeqCst));
}

#[test]
fn a_panic_fails_its_command_and_is_reported() {
    let (sender, receiver) = mpsc::channel();
    let devices = context().devices.clone();
    let sender = Mutex::new(sender);
    let report = move |message: &str| sender.lock().unwrap().send(message.to_string()).unwrap();
    let listener = Listener::new(Some(Box::new(report)));
    let context = Context::new(devices, Vec::new(), &listener).unwrap();
    let queue = queue(&context);
    for command in [call(|| panic!("on purpose")), short(|| panic!("on purpose"))] {
        let event = queue.submit(command, &[], false).unwrap();
        assert_eq!(event.wait(), Err(Status::OutOfResources.code()));
        let message = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        let begin = "CL_COMMAND_NATIVE_KERNEL ended with CL_OUT_OF_RESOURCES";
        assert!(message.starts_with(begin) && message.contains("on purpose"), "{message}");
    }
    assert!(queue.submit(short(|| ()), &[], true).is_ok(), "the queue lives on");
}

#[test]
fn callbacks_come_in_order_and_late_ones_at_once() {
    let context = context();
    let queue = queue(&context);
    let gate = Event::user(&context);
    let event = queue.submit(short(|| ()), from_ref(&gate), false).unwrap();
    let (sender, receiver) = mpsc::channel();
    for trigger in [status::COMPLETE, status::RUNNING, status::SUBMITTED] {
        let sender = sender.clone();
        event.on_status(trigger, Box::new(move |status| sender.send(status).unwrap())).unwrap();
    }
    assert!(event.on_status(status::QUEUED, Box::new(|_| ())).is_err());
    gate.set_user_status(0).unwrap();
    let next = || receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!([next(), next(), next()], [2, 1, 0]);
    event.on_status(status::COMPLETE, Box::new(move |status| sender.send(status).unwrap())).unwrap();
    assert_eq!(next(), 0);
}

#[test]
fn a_released_queue_finishes_its_commands() {
    let context = context();
    let queue = queue(&context);
    let (sender, receiver) = mpsc::channel();
    let gate = Event::user(&context);
    for number in 0..100 {
        let sender = sender.clone();
        let command = short(move || sender.send(number).unwrap());
        queue.submit(command, from_ref(&gate), false).unwrap();
    }
    drop((queue, sender));
    gate.set_user_status(0).unwrap();
    assert_eq!(receiver.iter().count(), 100);
}

#[test]
fn an_unflushed_command_runs_when_it_is_asked_for() {
    let context = context();
    let queue = queue(&context);
    let event = queue.submit(short(|| ()), &[], false).unwrap();
    let begun = Instant::now();
    while event.status() != status::COMPLETE {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
}

#[test]
fn many_short_commands_run_though_nobody_asks_for_them() {
    let context = context();
    let queue = queue(&context);
    let (sender, receiver) = mpsc::channel();
    for number in 0..=DEFERRED_NS / COMMAND_NS {
        let sender = sender.clone();
        queue.submit(short(move || sender.send(number).unwrap()), &[], false).unwrap();
    }
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(0));
}

#[test]
fn profiles_are_ordered_and_only_of_profiling_queues() {
    let context = context();
    let event =
        queue(&context).submit(short(|| std::thread::sleep(Duration::from_millis(2))), &[], true).unwrap();
    let profile = event.profile().unwrap();
    assert!(profile.queued <= profile.submit && profile.submit <= profile.start);
    assert!(profile.end - profile.start >= 2_000_000);
    let plain = Queue::new(&context, context.device(), false, false).unwrap();
    let event = plain.submit(Command::marker(), &[], true).unwrap();
    assert_eq!(event.profile().unwrap_err().status, Status::ProfilingInfoNotAvailable);
    assert_eq!(event.command_type, CommandType::Marker);
}

#[test]
fn foreign_objects_and_events_are_refused() {
    let (context, other) = (context(), context());
    let queue = queue(&context);
    let foreign = Mem::buffer(&other, MemFlags::empty(), 16, None).unwrap();
    let command = buffer::fill(&foreign, &[0], 0, 16).unwrap();
    assert_eq!(queue.submit(command, &[], false).unwrap_err().status, Status::InvalidContext);
    let event = Event::user(&other);
    assert_eq!(queue.submit(Command::marker(), &[event], false).unwrap_err().status, Status::InvalidContext);
}

#[test]
fn many_threads_may_use_one_queue() {
    let context = context();
    let queue = queue(&context);
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (queue, count) = (&queue, &count);
            scope.spawn(move || {
                for number in 0..500 {
                    let count = count.clone();
                    let add = move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    };
                    let command = if (number + thread) % 7 == 0 { call(add) } else { short(add) };
                    queue.submit(command, &[], number % 10 == 0).unwrap();
                    if number % 25 == 0 {
                        queue.finish().unwrap();
                    }
                }
                queue.finish().unwrap();
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 2000);
}

#[test]
fn everyone_who_finishes_waits() {
    let context = context();
    let queue = queue(&context);
    let done = Arc::new(AtomicBool::new(false));
    let set = done.clone();
    let command = call(move || {
        std::thread::sleep(Duration::from_millis(30));
        set.store(true, Ordering::SeqCst);
    });
    queue.submit(command, &[], false).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                queue.finish().unwrap();
                assert!(done.load(Ordering::SeqCst));
            });
        }
    });
}

#[test]
#[ignore = "measures"]
fn empty_kernels_are_cheap() {
    let context = context();
    let queue = Queue::new(&context, context.device(), false, false).unwrap();
    let kernel = kernel(&context, info("empty", &[]), empty);
    let launch = || ndrange(&kernel, &queue.device, None, &[1], None).unwrap();
    let time = |launches: usize| {
        let begun = Instant::now();
        (0..launches).for_each(|_| drop(queue.submit(launch(), &[], false).unwrap()));
        queue.finish().unwrap();
        begun.elapsed()
    };
    let many = (0..20).map(|_| time(1000)).min().unwrap();
    let single = (0..200).map(|_| time(1)).min().unwrap();
    println!("1000 empty kernels: {many:?}; one with its finish: {single:?}");
    // On an idle machine: 2 us each.
    assert!(many < Duration::from_millis(2), "{many:?}");
}

fn out_of_order(context: &Arc<Context>) -> Arc<Queue> {
    Queue::new(context, context.device(), true, true).unwrap()
}

/// A command that notes its name.
fn note(log: &Arc<Mutex<Vec<&'static str>>>, name: &'static str) -> Command {
    let log = log.clone();
    short(move || log.lock().unwrap().push(name))
}

#[test]
fn out_of_order_a_command_that_waits_holds_up_nobody() {
    let context = context();
    let queue = out_of_order(&context);
    let (log, gate) = (Arc::default(), Event::user(&context));
    let held = queue.submit(note(&log, "held"), from_ref(&gate), false).unwrap();
    let behind = queue.submit(note(&log, "behind"), from_ref(&held), false).unwrap();
    // Blocks until it has run, although two stand before it.
    queue.submit(note(&log, "free"), &[], true).unwrap();
    assert!(held.status() > status::COMPLETE && behind.status() > status::COMPLETE);
    gate.set_user_status(status::COMPLETE).unwrap();
    behind.wait().unwrap();
    assert_eq!(*log.lock().unwrap(), ["free", "held", "behind"]);
}

#[test]
fn out_of_order_barriers_part_and_markers_only_watch() {
    let context = context();
    let queue = out_of_order(&context);
    let (log, gate) = (Arc::default(), Event::user(&context));
    let held = queue.submit(note(&log, "held"), from_ref(&gate), false).unwrap();
    let marker = queue.submit(Command::marker(), &[], false).unwrap();
    // A barrier for a list doesn't wait for what else is before it.
    let listed = queue.submit(note(&log, "listed"), &[], false).unwrap();
    queue.submit(Command::barrier(), from_ref(&listed), true).unwrap();
    assert!(marker.status() > status::COMPLETE, "the marker waits for all before it");
    let barrier = queue.submit(Command::barrier(), &[], false).unwrap();
    let behind = queue.submit(note(&log, "behind"), &[], false).unwrap();
    queue.flush().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(barrier.status() > status::COMPLETE && behind.status() > status::COMPLETE);
    gate.set_user_status(status::COMPLETE).unwrap();
    queue.finish().unwrap();
    assert!([&held, &marker, &barrier, &behind].iter().all(|event| event.status() == status::COMPLETE));
    assert_eq!(*log.lock().unwrap(), ["listed", "held", "behind"]);
}

#[test]
fn out_of_order_failures_reach_who_waits_and_nobody_else() {
    let context = context();
    let (queue, other) = (out_of_order(&context), out_of_order(&context));
    let failed = queue.submit(failing(), &[], false).unwrap();
    let dependent = other.submit(short(|| ()), from_ref(&failed), false).unwrap();
    let free = other.submit(short(|| ()), &[], false).unwrap();
    assert_eq!((dependent.wait(), free.wait()), (Err(FAILED_WAIT), Ok(())));
    queue.finish().unwrap();
}

#[test]
fn out_of_order_a_released_queue_runs_what_still_waits() {
    let context = context();
    let gate = Event::user(&context);
    let queue = out_of_order(&context);
    let held = queue.submit(short(|| ()), from_ref(&gate), false).unwrap();
    drop(queue);
    std::thread::sleep(Duration::from_millis(20));
    gate.set_user_status(status::COMPLETE).unwrap();
    held.wait().unwrap();
}

/// Each command is looked at once for each of its events: if all were at each step, this would take hours.
#[test]
fn out_of_order_a_long_backlog_is_not_walked_again_and_again() {
    const COMMANDS: usize = 300_000;
    let context = context();
    let queue = out_of_order(&context);
    let (ran, gate) = (Arc::new(AtomicUsize::new(0)), Event::user(&context));
    let count = || {
        let ran = ran.clone();
        short(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    // Half behind one event, half each behind the one before.
    let mut last = gate.clone();
    for number in 0..COMMANDS {
        let wait = if number % 2 == 0 { &gate } else { &last };
        let event = queue.submit(count(), from_ref(wait), false).unwrap();
        if number % 2 != 0 {
            last = event;
        }
    }
    gate.set_user_status(status::COMPLETE).unwrap();
    queue.finish().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), COMMANDS);
}

#[test]
fn out_of_order_several_events_are_waited_for_one_after_the_other() {
    let context = context();
    let queue = out_of_order(&context);
    let gates: Vec<_> = (0..3).map(|_| Event::user(&context)).collect();
    let log = Arc::default();
    let held = queue.submit(note(&log, "held"), &gates, false).unwrap();
    for gate in gates.iter().rev() {
        queue.submit(note(&log, "free"), &[], true).unwrap();
        assert!(held.status() > status::COMPLETE);
        gate.set_user_status(status::COMPLETE).unwrap();
    }
    held.wait().unwrap();
    assert_eq!(*log.lock().unwrap(), ["free", "free", "free", "held"]);
}
