//! Tests of the background's queue, with jobs that wait for the test.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};

fn queue(most: usize) -> &'static Queue {
    Box::leak(Box::new(Queue::new(most, LONG)))
}

/// Nothing that another process could do, but something to wait for.
fn none() -> Unfinished {
    Unfinished { will: Some(Box::new(|| None)), is_waited_for: true }
}

fn after(pause: Duration) -> Urgency {
    urgent(Instant::now() + pause, true)
}

fn urgent(begin: Instant, is_short: bool) -> Urgency {
    let takes = if is_short { Duration::ZERO } else { 2 * SHORT };
    Urgency::Urgent { begin, gain: Gain::new(takes, Box::new(|| 0)) }
}

const LEISURELY: Urgency = Urgency::Leisurely;

const LONG: Duration = Duration::from_secs(60);

fn received<T>(receiver: &Receiver<T>, count: usize) -> Vec<T> {
    (0..count).map(|_| receiver.recv_timeout(LONG).expect("the jobs are done")).collect()
}

#[test]
fn leisurely_jobs_are_done_in_their_order_and_threads_end() {
    let queue = queue(1);
    let (sender, receiver) = channel();
    for round in 0..3 {
        for number in 0..20 {
            let sender = sender.clone();
            queue.add(Box::new(move || sender.send(number).unwrap()), LEISURELY, none()).unwrap();
        }
        assert_eq!(received(&receiver, 20), (0..20).collect::<Vec<_>>(), "{round}");
        while queue.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_newest_urgent_job_goes_first_and_waits_for_no_leisurely_one() {
    let queue = queue(1);
    let (sender, receiver) = channel();
    let (begin, begun) = channel();
    let begins = begin.clone();
    let (end, ended) = channel::<()>();
    let leisurely = move || {
        begins.send(()).unwrap();
        let _ = ended.recv_timeout(LONG);
    };
    queue.add(Box::new(leisurely), LEISURELY, none()).unwrap();
    received(&begun, 1);
    // Beside it, and before another one; what comes while an urgent job is done goes by its age.
    let (first, others_are_there) = channel::<()>();
    let telling = |number: u32| {
        let sender = sender.clone();
        move || sender.send(number).unwrap()
    };
    let tell = telling(0);
    let waits = move || {
        begin.send(()).unwrap();
        let _ = others_are_there.recv_timeout(LONG);
        tell();
    };
    queue.add(Box::new(waits), after(Duration::ZERO), none()).unwrap();
    received(&begun, 1);
    queue.add(Box::new(telling(1)), LEISURELY, none()).unwrap();
    queue.add(Box::new(telling(2)), after(Duration::ZERO), none()).unwrap();
    queue.add(Box::new(telling(3)), after(Duration::ZERO), none()).unwrap();
    assert!(queue.lock().threads <= 3);
    drop(first);
    assert_eq!(received(&receiver, 3), [0, 3, 2], "the leisurely job is not done");
    drop(end);
    assert_eq!(received(&receiver, 1), [1]);
}

#[test]
fn an_exit_waits_for_what_will_end_and_no_longer() {
    let queue = queue(1);
    let (sender, receiver) = channel::<()>();
    let wait = move || {
        let _ = receiver.recv_timeout(LONG);
    };
    assert!(!queue.is_busy());
    queue.add(Box::new(wait), after(Duration::ZERO), none()).unwrap();
    assert!(!queue.finish(Duration::from_millis(20)));
    assert_eq!(queue.lock().threads, 1, "the job has not ended");
    assert!(queue.is_busy());
    drop(sender);
    assert!(queue.finish(LONG));
    assert_eq!(queue.lock().threads, 0);
    assert!(!queue.is_busy());
}

#[test]
fn an_exit_leaves_what_it_does_not_wait_for() {
    let queue = queue(1);
    let (sender, receiver) = channel::<()>();
    let wait = move || {
        let _ = receiver.recv_timeout(LONG);
    };
    let (first, begun) = channel();
    queue.add(Box::new(move || first.send(()).unwrap()), after(Duration::ZERO), none()).unwrap();
    received(&begun, 1);
    let asked = Arc::new(AtomicUsize::new(0));
    let asking = asked.clone();
    let will = move || {
        asking.fetch_add(1, SeqCst);
        None
    };
    let unfinished = Unfinished { will: Some(Box::new(will)), is_waited_for: false };
    queue.add(Box::new(wait), LEISURELY, unfinished).unwrap();
    assert!(queue.finish(LONG));
    assert_eq!(queue.lock().unfinished.len(), 1, "the job has not ended");
    assert!(queue.wills().is_empty());
    assert_eq!(asked.load(SeqCst), 1, "another process can end it");
    drop(sender);
}

#[test]
fn there_are_as_many_threads_as_there_may_be() {
    let queue = queue(3);
    let meet = Arc::new(Barrier::new(3));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (sender, receiver) = channel();
    for _ in 0..9 {
        let (meet, running, most, sender) = (meet.clone(), running.clone(), most.clone(), sender.clone());
        let job = move || {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            meet.wait(); // With fewer threads nobody would get on.
            running.fetch_sub(1, SeqCst);
            sender.send(()).unwrap();
        };
        queue.add(Box::new(job), after(Duration::ZERO), none()).unwrap();
    }
    received(&receiver, 9);
    assert_eq!(most.load(SeqCst), 3);
}

#[test]
fn who_waits_for_jobs_leaves_a_processor_to_one_more() {
    let queue: &Queue = Box::leak(Box::new(Queue { lendable: 1, ..Queue::new(1, LONG) }));
    let (sender, receiver) = channel();
    let meet = Arc::new(Barrier::new(2));
    let lent = [queue.lend(), queue.lend()];
    for _ in 0..2 {
        let (meet, sender) = (meet.clone(), sender.clone());
        let job = move || {
            meet.wait(); // Alone nobody would get on.
            sender.send(()).unwrap();
        };
        queue.add(Box::new(job), after(Duration::ZERO), none()).unwrap();
    }
    received(&receiver, 2);
    assert_eq!(queue.most(&queue.lock()), 2, "there are no more processors");
    drop(lent);
    assert_eq!(queue.most(&queue.lock()), 1);
}

#[test]
fn a_job_that_pauses_first_lets_others_begin_and_is_done_though_they_last() {
    let queue = queue(1);
    let (sender, receiver) = channel();
    let telling = |number: u32| {
        let sender = sender.clone();
        Box::new(move || sender.send(number).unwrap())
    };
    let (end, ended) = channel::<()>();
    let tell = telling(2);
    let lasting = Box::new(move || {
        tell();
        let _ = ended.recv_timeout(LONG);
    });
    queue.add(telling(3), after(Duration::from_millis(100)), none()).unwrap();
    queue.add(telling(1), after(Duration::ZERO), none()).unwrap();
    assert_eq!(received(&receiver, 1), [1]);
    queue.add(lasting, LEISURELY, none()).unwrap();
    let mut others = received(&receiver, 2);
    others.sort_unstable(); // On a slow machine the pause ends first.
    assert_eq!(others, [2, 3], "the job waits for a leisurely one");
    drop(end);
}

#[test]
fn a_job_that_lasts_keeps_no_short_one_back() {
    for is_short in [true, false] {
        let queue: &Queue = Box::leak(Box::new(Queue::new(1, Duration::from_millis(20))));
        let (sender, receiver) = channel();
        let (end, ended) = channel::<()>();
        let lasting = move || {
            let _ = ended.recv_timeout(LONG);
        };
        let urgency = |is_short| urgent(Instant::now(), is_short);
        queue.add(Box::new(lasting), urgency(true), none()).unwrap();
        while queue.lock().at_work.is_empty() {
            std::thread::yield_now();
        }
        let long = sender.clone();
        queue.add(Box::new(move || long.send(1).unwrap()), urgency(false), none()).unwrap();
        if is_short {
            queue.add(Box::new(move || sender.send(2).unwrap()), urgency(true), none()).unwrap();
            assert_eq!(received(&receiver, 1), [2]);
        }
        assert!(receiver.try_recv().is_err(), "two jobs of a minute take the processors from launches");
        drop(end);
        assert_eq!(received(&receiver, 1), [1]);
        assert!(queue.finish(LONG));
    }
}

#[test]
fn beside_jobs_that_last_only_short_ones_begin_and_as_many_as_else() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let now = Instant::now();
    let long_ago = now - 2 * PATIENCE;
    let next = |at_work: &[Instant], is_short: bool| {
        let at_work = (100..).zip(at_work.iter().copied()).collect();
        let mut state = State { at_work, ..State::default() };
        state.push(urgent(now, is_short), (7, Box::new(|| {})));
        match state.pop_urgent(1, PATIENCE) {
            Ok((number, _)) => {
                assert_eq!((number, state.at_work.last().unwrap().0), (7, 7));
                true
            }
            Err(pause) => {
                assert_eq!(pause, Some(PATIENCE), "who waits looks again");
                false
            }
        }
    };
    for (at_work, short, long) in [
        (&[][..], true, true),
        (&[now], false, false),
        (&[long_ago], true, false),
        (&[long_ago, now], false, false),
        (&[long_ago, long_ago], false, false),
    ] {
        assert_eq!((next(at_work, true), next(at_work, false)), (short, long), "{at_work:?}");
    }
}

#[test]
fn a_panic_costs_its_job_alone() {
    let queue = queue(1);
    let (sender, receiver) = channel();
    for number in 0..4 {
        let sender = sender.clone();
        let job = move || {
            assert!(number % 2 == 0, "of the test");
            sender.send(number).unwrap();
        };
        queue.add(Box::new(job), LEISURELY, none()).unwrap();
    }
    assert_eq!(received(&receiver, 2), [0, 2]);
}

#[test]
fn what_launches_run_in_most_is_replaced_first() {
    let queue = queue(1);
    let (sender, receiver) = channel();
    let (begin, begun) = channel();
    let (first, others_are_there) = channel::<()>();
    let waits = move || {
        begin.send(()).unwrap();
        let _ = others_are_there.recv_timeout(LONG);
    };
    queue.add(Box::new(waits), after(Duration::ZERO), none()).unwrap();
    received(&begun, 1);
    let takes = Duration::from_millis(100);
    let runs = Arc::new(AtomicUsize::new(0));
    for (number, spent_ns) in [(0, 0), (1, u64::MAX), (2, 1 << 40), (3, 0)] {
        let (sender, runs) = (sender.clone(), runs.clone());
        let gain = Gain::new(takes, Box::new(move || spent_ns * runs.load(SeqCst) as u64));
        let urgency = Urgency::Urgent { begin: Instant::now(), gain };
        queue.add(Box::new(move || sender.send(number).unwrap()), urgency, none()).unwrap();
    }
    runs.store(1, SeqCst);
    drop(first);
    assert_eq!(received(&receiver, 4), [1, 2, 3, 0], "and the newest one of those that are unknown");
}
