//! The commands that came out of a queue's channel and have not run: which one is next, in order and out of order.
//!
//! Out of order each command looks for the first event of its list that has not ended, and has itself called when that one
//! ends; then it goes on. So no command is looked at more often than it has events, however many others there are.

use super::Pending;
use crate::command::CommandType;
use crate::queue::event::{Event, status};
use crossbeam::channel::Receiver;
use crossbeam::queue::SegQueue;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A command's place in the order in which a queue's commands came.
pub(super) type Place = u64;

/// Commands in the order in which they were queued. All that were queued before the first have ended.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// From the first that has not run; those that have leave gaps.
    commands: VecDeque<Option<Pending>>,
    /// The first one's place.
    first: Place,
    /// Those that wait for no event any more.
    ready: BinaryHeap<Reverse<Place>>,
    /// The barriers among them.
    barriers: VecDeque<Place>,
}

impl Front {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// In order: the first command, if it is `welcome`. Only that one is taken from the channel.
    pub(super) fn take_first(
        &mut self,
        commands: &Receiver<Pending>,
        welcome: impl Fn(&Pending) -> bool,
    ) -> Option<Pending> {
        if self.commands.is_empty() {
            self.commands.extend(commands.try_recv().ok().map(Some));
        }
        self.commands.pop_front_if(|first| first.as_ref().is_some_and(&welcome)).flatten()
    }

    /// Out of order: the first command that is ready and `welcome`. `called` has the places of those whose event has ended;
    /// `call` has a place called at an event's end, or says that it has ended.
    pub(super) fn take_ready(
        &mut self,
        commands: &Receiver<Pending>,
        called: &SegQueue<Place>,
        call: impl Fn(&Event, Place) -> bool,
        welcome: impl Fn(&Pending) -> bool,
    ) -> Option<Pending> {
        for pending in commands.try_iter() {
            pending.event.advance(status::SUBMITTED);
            let place = self.first + self.commands.len() as Place;
            if pending.event.command_type == CommandType::Barrier {
                self.barriers.push_back(place);
            }
            self.commands.push_back(Some(pending));
            self.look(place, &call);
        }
        while let Some(place) = called.pop() {
            self.look(place, &call);
        }
        // A marker or barrier without a list waits for all commands before it.
        if let Some(Some(first)) = self.commands.front()
            && first.waits_for_all()
            && welcome(first)
        {
            return self.take(self.first);
        }
        // What stands behind a barrier is not ready.
        let last = self.barriers.front().copied().unwrap_or(Place::MAX);
        let mut unwelcome = Vec::new();
        let mut found = None;
        while let Some(&Reverse(place)) = self.ready.peek()
            && place <= last
            && found.is_none()
        {
            self.ready.pop();
            match self.at(place).is_some_and(|pending| welcome(pending)) {
                true => found = Some(place),
                false => unwelcome.push(Reverse(place)),
            }
        }
        self.ready.extend(unwelcome);
        self.take(found?)
    }

    fn at(&mut self, place: Place) -> Option<&mut Pending> {
        let index = usize::try_from(place.checked_sub(self.first)?).ok()?;
        self.commands.get_mut(index)?.as_mut()
    }

    /// Finds the next event that the command has to wait for; without one it is ready.
    fn look(&mut self, place: Place, call: impl Fn(&Event, Place) -> bool) {
        let Some(pending) = self.at(place) else { return };
        if pending.waits_for_all() {
            return;
        }
        while let Some(event) = pending.wait.get(pending.ended) {
            if call(event, place) {
                return;
            }
            pending.ended += 1;
        }
        self.ready.push(Reverse(place));
    }

    fn take(&mut self, place: Place) -> Option<Pending> {
        let index = usize::try_from(place.checked_sub(self.first)?).ok()?;
        let taken = self.commands.get_mut(index)?.take();
        self.barriers.pop_front_if(|barrier| *barrier == place);
        while self.commands.pop_front_if(|first| first.is_none()).is_some() {
            self.first += 1;
        }
        taken
    }
}
