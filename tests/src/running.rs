//! How long a process has run: a clock that stands while the process is stopped.

use std::time::{Duration, Instant};

/// More than this between two looks, and the process was stopped.
const MOST: Duration = Duration::from_secs(1);

/// Time that has passed for who looks at the clock all the while.
#[derive(Debug)]
pub struct Running {
    ran: Duration,
    last: Instant,
}

impl Running {
    /// A clock at zero.
    pub fn start() -> Running {
        Running { ran: Duration::ZERO, last: Instant::now() }
    }

    /// Looks at it.
    pub fn now(&mut self) -> Duration {
        let now = Instant::now();
        self.ran += (now - self.last).min(MOST);
        self.last = now;
        self.ran
    }
}
