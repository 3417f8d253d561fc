//! The commands that came out of a queue's channel and have not run: which one is next, in order and out of order.

use super::Pending;
use crate::command::CommandType;
use crate::queue::event::status;
use crossbeam::channel::Receiver;
use std::collections::VecDeque;

/// Commands in the order in which they were queued. All that were queued before the first have ended.
#[derive(Debug, Default)]
pub(super) struct Front(VecDeque<Pending>);

impl Front {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In order: the first command, if it is `welcome`. Only that one is taken from the channel.
    pub(super) fn take_first(
        &mut self,
        commands: &Receiver<Pending>,
        welcome: impl Fn(&Pending) -> bool,
    ) -> Option<Pending> {
        if self.0.is_empty() {
            self.0.extend(commands.try_recv().ok());
        }
        self.0.pop_front_if(|first| welcome(first))
    }

    /// Out of order: the first command that is ready and `welcome`.
    pub(super) fn take_ready(
        &mut self,
        commands: &Receiver<Pending>,
        welcome: impl Fn(&Pending) -> bool,
    ) -> Option<Pending> {
        for pending in commands.try_iter() {
            pending.event.advance(status::SUBMITTED);
            self.0.push_back(pending);
        }
        // What stands behind a barrier is not ready.
        let barrier = self.0.iter().position(|pending| pending.event.command_type == CommandType::Barrier);
        let candidates = barrier.map_or(self.0.len(), |index| index + 1);
        let ready = (0..candidates).find(|&index| self.is_ready(index) && welcome(&self.0[index]))?;
        self.0.remove(ready)
    }

    /// A marker or barrier without a list waits for all commands before it, any other command for its list.
    fn is_ready(&self, index: usize) -> bool {
        let Pending { event, wait, .. } = &self.0[index];
        let for_all =
            matches!(event.command_type, CommandType::Marker | CommandType::Barrier) && wait.is_empty();
        if for_all { index == 0 } else { wait.iter().all(|event| event.has_ended()) }
    }
}
