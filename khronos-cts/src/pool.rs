//! Spreads tests over supervising threads and collects the verdicts in the tests' order.

use crate::progress::Progress;
use crate::results::Outcome;
use crate::verdict::Verdict;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Judges every test on `jobs` threads, each with a helper of its own that `start` makes. A test may consist of several:
/// suite, name, verdict.
pub fn run<T: Sync, H>(
    tests: &[T],
    jobs: usize,
    progress: &Progress,
    start: impl Fn() -> H + Sync,
    judge: impl Fn(&mut H, &T) -> Vec<(String, String, Verdict)> + Sync,
) -> Result<Vec<Outcome>, String> {
    let outcomes = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let supervise = || {
        let mut helper = start();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(test) = tests.get(index) else { return };
            let began = Instant::now();
            let verdicts = judge(&mut helper, test);
            progress.tell(&verdicts);
            let seconds = began.elapsed().as_secs_f64() / verdicts.len().max(1) as f64;
            let outcome = |(suite, test, verdict)| (index, Outcome { suite, test, verdict, seconds });
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.extend(verdicts.into_iter().map(outcome));
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(supervise)).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a supervisor panicked".to_string()))
    })?;
    let mut outcomes = outcomes.into_inner().map_err(|_| "a supervisor panicked".to_string())?;
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_judged_once_and_the_order_is_kept() {
        let tests: Vec<usize> = (0..100).collect();
        let judge = |_: &mut (), n: &usize| {
            let verdict = if n.is_multiple_of(3) { Verdict::Passed } else { Verdict::Failed(n.to_string()) };
            vec![("s".to_string(), n.to_string(), verdict)]
        };
        let outcomes = run(&tests, 4, &Progress::silent(), || (), judge).unwrap();
        assert!(outcomes.iter().enumerate().all(|(index, o)| o.test == index.to_string()));
        assert_eq!(outcomes[4].verdict, Verdict::Failed("4".into()));
        assert_eq!(outcomes.len(), 100);
    }
}
