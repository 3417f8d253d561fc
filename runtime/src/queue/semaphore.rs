//! Binary semaphores (cl_khr_semaphore). A signal is a command that sets one. A wait is two: the first asks for a signal, when it is
//! that command's turn, and the second waits for an event that the signal ends.

use super::Queue;
use super::event::Event;
use crate::command::{Command, CommandType};
use crate::context::Context;
use crate::error::{Result, Status};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A `cl_semaphore_khr` of type CL_SEMAPHORE_TYPE_BINARY_KHR.
#[derive(Debug)]
pub struct Semaphore {
    /// CL_SEMAPHORE_CONTEXT_KHR.
    pub context: Arc<Context>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    signaled: bool,
    /// Those that asked for a signal before there was one.
    waiting: VecDeque<Turn>,
}

/// The event of a wait that has its turn; ends well with the signal, or not at all if it is given up before.
#[derive(Debug)]
struct Turn(Arc<Event>);

impl Turn {
    fn has_come(&self) {
        // Only here and below; whoever is first counts.
        let _ = self.0.set_user_status(super::event::status::COMPLETE);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.0.set_user_status(Status::ExecStatusErrorForEventsInWaitList as i32);
    }
}

impl Semaphore {
    /// clCreateSemaphoreWithPropertiesKHR: one that is not signaled.
    pub fn new(context: &Arc<Context>) -> Arc<Semaphore> {
        Arc::new(Semaphore { context: context.clone(), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a signal that nobody has waited for.
    pub fn is_signaled(&self) -> bool {
        self.lock().signaled
    }

    fn signal(&self) {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        state.signaled |= next.is_none();
        drop(state);
        if let Some(turn) = next {
            turn.has_come();
        }
    }

    fn ask(&self, turn: Turn) {
        let mut state = self.lock();
        if std::mem::take(&mut state.signaled) {
            drop(state);
            turn.has_come();
        } else {
            state.waiting.push_back(turn);
        }
    }
}

/// clEnqueueSignalSemaphoresKHR of semaphores of this context.
pub fn signal(context: &Arc<Context>, semaphores: Vec<Arc<Semaphore>>) -> Command {
    let all = move || semaphores.iter().for_each(|semaphore| semaphore.signal());
    Command::call(CommandType::SemaphoreSignal, Some(context.clone()), 0, all)
}

/// clEnqueueWaitSemaphoresKHR behind `wait`: a command of the queue asks for the signals, and the one that is returned is to wait for
/// these events.
pub fn wait(
    queue: &Queue,
    semaphores: Vec<Arc<Semaphore>>,
    wait: &[Arc<Event>],
) -> Result<(Command, Vec<Arc<Event>>)> {
    let events: Vec<_> = semaphores.iter().map(|_| Event::user(&queue.context)).collect();
    // Dropped if it does not run.
    let turns: Vec<_> = events.iter().cloned().map(Turn).collect();
    let ask = move || semaphores.iter().zip(turns).for_each(|(semaphore, turn)| semaphore.ask(turn));
    let context = Some(queue.context.clone());
    queue.submit(Command::call(CommandType::SemaphoreWait, context.clone(), 0, ask), wait, false)?;
    Ok((Command::call(CommandType::SemaphoreWait, context, 0, || ()), events))
}
