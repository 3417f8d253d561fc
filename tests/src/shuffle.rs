//! Another schedule: with `SPIRULA_TEST_DELAY`, each command waits for a random pause before it runs, so that whatever a
//! test or the library takes for done because it usually is shows. The value is the seed, a number, or anything else for a
//! new one, which is printed; the pauses of one seed are the same from run to run, as far as threads let them be.
//!
//! From outside of the library: a command gets a user event into its wait list, which a thread here completes. Pauses of
//! commands behind one another overlap, and those of an out-of-order queue pass one another.

use crate::cl::sys::{
    CL_COMPLETE, CL_QUEUE_CONTEXT, CL_SUCCESS, cl_command_queue, cl_event, cl_int, cl_uint,
};
use crate::cl::{Event, Handle, query};
use crate::mutate::Random;
use crate::{call, create, lent};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr::null_mut;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Turns pauses on.
pub const VARIABLE: &str = "SPIRULA_TEST_DELAY";

/// The seed, if there are pauses.
static SEED: LazyLock<Option<u64>> = LazyLock::new(|| {
    let value = std::env::var(VARIABLE).ok()?;
    let fresh = || {
        let seed = RandomState::new().build_hasher().finish() % 1_000_000;
        eprintln!("{VARIABLE}={seed}");
        seed
    };
    Some(value.parse().unwrap_or_else(|_| fresh()))
});

/// The commands that have been given a pause.
static COMMANDS: AtomicU64 = AtomicU64::new(0);
/// Gates that are closed.
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// Where gates are sent that are to be opened at a time.
static GATES: LazyLock<Sender<(Instant, Event)>> = LazyLock::new(|| {
    let (sender, receiver) = channel();
    thread::spawn(move || open(&receiver));
    sender
});

/// The seed, if there are pauses.
pub fn seed() -> Option<u64> {
    *SEED
}

/// Whether there are pauses.
pub(crate) fn is_on() -> bool {
    SEED.is_some()
}

/// Opens each gate at its time.
fn open(gates: &Receiver<(Instant, Event)>) {
    let mut closed = BTreeMap::new();
    for number in 0_u64.. {
        let next = match closed.first_key_value() {
            Some(((due, _), _)) => {
                gates.recv_timeout(Instant::saturating_duration_since(due, Instant::now()))
            }
            None => gates.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok((due, gate)) => drop(closed.insert((due, number), gate)),
            Err(RecvTimeoutError::Timeout) => {
                let (_, gate): (_, Event) = closed.pop_first().expect("the one that was waited for");
                gate.set_status(CL_COMPLETE).expect("nobody else opens it");
                CLOSED.fetch_sub(1, Ordering::SeqCst);
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The pause of the command of this number: often hardly any, now and then a long one.
fn pause(seed: u64, number: u64) -> Duration {
    let mut random = Random::new(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)));
    let longest = [0, 50, 300, 1_000, 2_000, 5_000, 10_000, 25_000][random.below(8)];
    Duration::from_micros(random.below(longest + 1) as u64)
}

/// A user event of the queue's context that will be complete after a pause; none if the queue is no queue.
fn gate(seed: u64, queue: cl_command_queue) -> Option<Event> {
    let context: usize = query(|size, value, needed| {
        call!(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, size, value, needed))
    })
    .ok()?;
    let gate = Event::from_raw(create!(clCreateUserEvent(context as Handle)).ok()?);
    CLOSED.fetch_add(1, Ordering::SeqCst);
    let due = Instant::now() + pause(seed, COMMANDS.fetch_add(1, Ordering::Relaxed));
    GATES.send((due, gate.clone())).expect("the thread that opens gates lives");
    Some(gate)
}

/// Runs a test. When it is over, nothing of its memory may be lent; what it has left in queues has begun then.
pub fn watch<T>(test: impl FnOnce() -> T) -> T {
    let frame = std::hint::black_box(0_u8);
    let result = test();
    if is_on() {
        lent::check_stack((&raw const frame).addr());
        while CLOSED.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    result
}

/// Calls a clEnqueue* function, with a gate more to wait for if there are pauses. `used` are addresses in memory of the
/// application that the command will use.
///
/// # Safety
/// The list and the event are as OpenCL asks for them, or wrong in a way that the library must find.
pub(crate) unsafe fn enqueue(
    name: &'static str,
    queue: cl_command_queue,
    used: &[usize],
    (count, list, event): (cl_uint, *const cl_event, *mut cl_event),
    mut call: impl FnMut(cl_uint, *const cl_event, *mut cl_event) -> cl_int,
) -> cl_int {
    let Some(seed) = *SEED else { return call(count, list, event) };
    lent::check_stack(lent::frame());
    let mut own = null_mut();
    let event = if event.is_null() && !used.is_empty() { &mut own } else { event };
    let loan = lent::to_command(name, used);
    // A barrier or marker with an empty list waits for all commands before it, and with one for those of the list only.
    let empty = count == 0 && list.is_null();
    let closed = match name {
        "clEnqueueMarkerWithWaitList" | "clEnqueueBarrierWithWaitList" if empty => None,
        _ if empty || count > 0 && !list.is_null() => gate(seed, queue),
        _ => None,
    };
    let status = match closed {
        None => call(count, list, event),
        Some(gate) => {
            // SAFETY: so many events, says the caller.
            let asked = if empty { &[] } else { unsafe { std::slice::from_raw_parts(list, count as usize) } };
            let waits: Vec<cl_event> = asked.iter().copied().chain([crate::cl::Object::raw(&gate)]).collect();
            call(waits.len() as cl_uint, waits.as_ptr(), event)
        }
    };
    // SAFETY: null, the caller's place for an event, or `own`.
    loan.until(unsafe { event.as_ref() }.copied().filter(|_| status == CL_SUCCESS));
    if !own.is_null() {
        drop(Event::from_raw(own));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_pauses_again() {
        let pauses = |seed| (0..1000).map(|number| pause(seed, number)).collect::<Vec<_>>();
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
        let longest = pauses(7).into_iter().max();
        assert!(longest.is_some_and(|pause| (10..=25).contains(&pause.as_millis())), "{longest:?}");
    }
}
