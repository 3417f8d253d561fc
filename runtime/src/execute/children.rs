//! Device-side enqueue: runs what kernels have enqueued, before the command that they belong to ends.
//!
//! A child begins when its parent's work-groups have ended, which is what all three of OpenCL C's flags permit, and when the
//! events that it waits for have. The newest parent's children come first: a tree of kernels is walked in depth, so that
//! few of its nodes wait at a time, each in the slots of its queue. Nothing here calls itself, and what is kept of a kernel
//! that has ended is a node only if it has an event: its children are otherwise its parent's own from then on. So memory is
//! bounded by the queues' and the events' sizes, however many kernels there are and however deep they nest.

use crate::command::ndrange::run_kernel;
use crate::error::{Error, Result, Status, code_name};
use crate::execute::group_size;
use crate::execute::launch::{ArgumentBlock, Invocation};
use crate::kernel::{LocalLayout, max_group_size};
use crate::log;
use crate::machine::timer;
use crate::platform::device::Device;
use crate::program::BuiltKernel;
use crate::queue::on_device::{DeviceQueue, DeviceQueues};
use spirula_interface::enqueue::host::{Child, Opened, OwnedEvents};
use spirula_interface::enqueue::{KernelFacts, MARKER, Parent};
use spirula_interface::program::{HiddenKind, Launch};
use std::collections::HashMap;
use std::sync::Arc;

/// What a launch that may enqueue kernels holds.
#[derive(Debug)]
pub(crate) struct Enqueuing {
    /// The program's kernels, which children are named by.
    pub kernels: Arc<[BuiltKernel]>,
    /// The queues that its arguments name, and the default one.
    pub queues: Vec<Arc<DeviceQueue>>,
    pub default: Option<Arc<DeviceQueue>>,
}

/// What kernels may know of a program's kernels.
fn facts(kernels: &[BuiltKernel], device: &Device) -> Vec<KernelFacts> {
    let of = |kernel: &BuiltKernel| KernelFacts {
        max_group_size: max_group_size(&kernel.info) as u32,
        preferred_multiple: device.info.native_vector_width.float,
        sub_group_size: kernel.info.code.sub_group_size,
        static_local_size: u32::try_from(kernel.info.code.static_local_size).unwrap_or(u32::MAX),
        remainder_groups: kernel.info.signature.remainder_groups.into(),
    };
    kernels.iter().map(of).collect()
}

impl Enqueuing {
    /// Runs a kernel by `root`, which is given the address of what it enqueues with, and then all that came of it. `ended` is
    /// called when the kernel itself has. Errors: the first of them all.
    pub(crate) fn run(
        self,
        device: &Device,
        shared: &DeviceQueues,
        root: impl FnOnce(u64) -> Result<()>,
        ended: &dyn Fn(),
    ) -> Result<()> {
        let no_memory = || Status::OutOfResources.because("no memory for events of kernels on the device");
        let events = shared.events().ok_or_else(no_memory)?;
        let facts = facts(&self.kernels, device);
        let parent = Box::new(Parent {
            default_queue: self.default.as_ref().map_or(0, |queue| queue.storage.address()),
            events: events.address(),
            kernels: facts.as_ptr().expose_provenance() as u64,
            kernel_count: facts.len() as u32,
            local_memory: device.info.local_mem_size,
            ..Parent::default()
        });
        let address = (&raw const *parent).expose_provenance() as u64;
        let tree = Tree {
            device,
            shared,
            events,
            kernels: &self.kernels,
            queues: &self.queues,
            parent: &parent,
            nodes: vec![Node::default()],
            free: Vec::new(),
            ready: Vec::new(),
            waiting: HashMap::new(),
            error: None,
        };
        let seen = events.changes();
        let result = root(address);
        ended();
        if events.changes() != seen {
            shared.tell();
        }
        tree.run(address, result)
    }
}

/// A kernel that has ended and whose children have not.
#[derive(Debug, Default)]
struct Node {
    /// None for the root.
    parent: Option<usize>,
    /// Its children that have not ended with all of theirs.
    open: usize,
    /// The first error, or CL_COMPLETE.
    status: i32,
    event: u64,
    started: u64,
    executed: u64,
}

/// The root's node.
const ROOT: usize = 0;

/// A child that has not begun.
#[derive(Debug)]
struct Pending<'a> {
    queue: &'a DeviceQueue,
    child: Child,
    /// Of its parent.
    node: usize,
}

/// The kernels that came of one command.
struct Tree<'a> {
    device: &'a Device,
    shared: &'a DeviceQueues,
    events: &'a OwnedEvents,
    kernels: &'a [BuiltKernel],
    queues: &'a [Arc<DeviceQueue>],
    parent: &'a Parent,
    nodes: Vec<Node>,
    /// Nodes that are free.
    free: Vec<usize>,
    /// The last one is next.
    ready: Vec<Pending<'a>>,
    /// By an event that has not ended.
    waiting: HashMap<u64, Vec<Pending<'a>>>,
    error: Option<Error>,
}

impl<'a> Tree<'a> {
    /// Runs all that the root enqueued, or gives it up if the root failed.
    fn run(mut self, address: u64, root: Result<()>) -> Result<()> {
        let given_up = root.is_err();
        self.error = root.err();
        self.nodes[ROOT].open = self.collect(ROOT);
        while !self.ready.is_empty() || !self.waiting.is_empty() {
            match self.ready.pop() {
                Some(pending) if given_up => {
                    let Opened { head, waits, .. } = pending.queue.storage.open(pending.child);
                    waits.into_iter().for_each(|event| self.events.release(event));
                    self.end_event(head.event, Status::OutOfResources.code(), [0, 0]);
                }
                Some(pending) => self.begin(pending, address),
                None => self.look_at_waiting(),
            }
        }
        self.error.map_or(Ok(()), Err)
    }

    /// Makes what the last kernel enqueued ready, as a node's children, the oldest to come first. How many there are.
    fn collect(&mut self, node: usize) -> usize {
        let before = self.ready.len();
        for queue in self.queues.iter().rev() {
            let children = queue.storage.children(self.parent);
            self.ready.extend(children.into_iter().rev().map(|child| Pending { queue, child, node }));
        }
        self.ready.len() - before
    }

    /// Positive for an event that has not ended; one that is gone has.
    fn status(&self, event: u64) -> i32 {
        self.events.status(event).unwrap_or(0)
    }

    /// Runs a child, unless it must wait.
    fn begin(&mut self, pending: Pending<'a>, address: u64) {
        let waits = pending.queue.storage.waits(&pending.child);
        if let Some(&event) = waits.iter().find(|&&event| self.status(event) > 0) {
            self.waiting.entry(event).or_default().push(pending);
            return;
        }
        let failed = waits.iter().map(|&event| self.status(event)).find(|&status| status < 0);
        let Pending { queue, child, node } = pending;
        let opened = queue.storage.open(child);
        waits.into_iter().for_each(|event| self.events.release(event));
        let (kernel, event) = (opened.head.kernel, opened.head.event);
        let started = timer();
        let result = match failed {
            Some(status) => {
                let why = format!("an event that it waited for ended with {}", code_name(status));
                Err(Status::ExecStatusErrorForEventsInWaitList.because(why))
            }
            None if kernel == MARKER => Ok(()),
            None => self.run_child(&opened, address),
        };
        let executed = timer().saturating_sub(started);
        let mut status = 0;
        if let Err(error) = result {
            status = error.code();
            self.note(kernel, error);
        }
        self.ended(Node { parent: Some(node), open: 0, status, event, started, executed });
    }

    /// Keeps the first error.
    fn note(&mut self, kernel: u32, error: Error) {
        let name = self
            .kernels
            .get(kernel as usize)
            .map_or("a marker", |kernel| kernel.info.signature.name.as_str());
        let error = error.status.because(format!("{name}, enqueued by a kernel: {}", error.detail));
        log::error(&error);
        self.error.get_or_insert(error);
    }

    /// Runs a child's work-groups.
    fn run_child(&self, opened: &Opened, address: u64) -> Result<()> {
        let kernel = self.kernels.get(opened.head.kernel as usize);
        let kernel = kernel.ok_or_else(|| Status::InvalidKernel.because("the program has no such kernel"))?;
        let parts = parts(kernel, opened, self.device).into_iter();
        let parts = parts.map(|part| invocation(kernel, opened, part, address));
        let parts = parts.collect::<Result<Vec<Invocation>>>()?;
        let seen = self.events.changes();
        let result = run_kernel(self.device, &kernel.info, parts);
        if self.events.changes() != seen {
            self.shared.tell();
        }
        result
    }

    /// A child has ended. Its own children keep it as a node if it has an event; else they become its parent's.
    fn ended(&mut self, child: Node) {
        let parent = child.parent.unwrap_or(ROOT);
        if child.event == 0 {
            let count = self.collect(parent);
            self.nodes[parent].open += count;
            return self.one_ended(parent, child.status);
        }
        let node = self.free.pop().unwrap_or(self.nodes.len());
        // It counts itself until its children are known.
        let child = Node { open: 1, ..child };
        match self.nodes.get_mut(node) {
            Some(place) => *place = child,
            None => self.nodes.push(child),
        }
        let (count, status) = (self.collect(node), self.nodes[node].status);
        self.nodes[node].open += count;
        self.one_ended(node, status);
    }

    /// One child of a node has ended with all of its own; and so may the node have, and its parents.
    fn one_ended(&mut self, node: usize, status: i32) {
        let (mut node, mut status) = (node, status);
        loop {
            let place = &mut self.nodes[node];
            place.open -= 1;
            if place.status == 0 {
                place.status = status;
            }
            let Some(parent) = place.parent.filter(|_| place.open == 0) else { return };
            let (event, started, executed) = (place.event, place.started, place.executed);
            status = place.status;
            self.free.push(node);
            node = parent;
            self.end_event(event, status, [executed, timer().saturating_sub(started)]);
        }
    }

    /// Ends a child's event, if it has one: who waits for it can begin.
    fn end_event(&mut self, event: u64, status: i32, [executed, completed]: [u64; 2]) {
        if event == 0 {
            return;
        }
        self.events.end(event, status, executed, completed);
        self.events.release(event);
        self.ready.extend(self.waiting.remove(&event).into_iter().flatten());
        self.shared.tell();
    }

    /// Nothing can begin: events that others end, kernels or other commands, are what is waited for.
    fn look_at_waiting(&mut self) {
        let seen = self.events.changes();
        let (events, waiting) = (self.events, &mut self.waiting);
        let ended = |event: u64| events.status(event).is_none_or(|status| status <= 0);
        let due = waiting.extract_if(|event, _| ended(*event)).flat_map(|(_, pending)| pending);
        self.ready.extend(due);
        if self.ready.is_empty() {
            self.shared.wait(self.events, seen);
        }
    }
}

/// A child's range in parts whose groups are of one size, which is chosen if the kernel gave none.
fn parts(kernel: &BuiltKernel, opened: &Opened, device: &Device) -> Vec<Launch> {
    let range = &opened.head.range;
    if range.global.contains(&0) {
        return Vec::new();
    }
    let local_size = match range.local {
        [0, 0, 0] => {
            let (most, threads) = (max_group_size(&kernel.info) as u64, device.scheduler.threads() as u64);
            group_size::good(range.global, most, threads)
        }
        given => given,
    };
    Launch::divided(range.work_dim, range.offset, range.global, local_size)
}

/// What is called for a child: its block's captures and the places of its local memory are the arguments.
fn invocation(kernel: &BuiltKernel, opened: &Opened, launch: Launch, address: u64) -> Result<Invocation> {
    let signature = &kernel.info.signature;
    let not_a_block = || Status::InvalidKernel.because("it is no block's");
    let captures = signature.block.ok_or_else(not_a_block)? as usize;
    if signature.arguments.len() != opened.locals.len() {
        return Err(Status::InvalidKernelArgs.because(format!(
            "it takes {} arguments of local memory, but was given {}",
            signature.arguments.len(),
            opened.locals.len()
        )));
    }
    let no_memory = || Status::OutOfResources.because("no memory for its arguments");
    let size = (signature.argument_block_size as usize).max(captures);
    let size = size.checked_add(opened.captures.len()).ok_or_else(no_memory)?;
    let mut block = ArgumentBlock::new(size).ok_or_else(no_memory)?;
    let mut local = LocalLayout::new(&kernel.info);
    for (argument, &size) in signature.arguments.iter().zip(&opened.locals) {
        let place = local.place(usize::try_from(size).unwrap_or(usize::MAX));
        block.put(argument.offset as usize, &place.to_ne_bytes());
    }
    if let Some(offset) = signature.hidden_offset(HiddenKind::Parent) {
        block.put(offset as usize, &address.to_ne_bytes());
    }
    block.put(captures, &opened.captures);
    Ok(Invocation { tiers: kernel.tiers.clone(), arguments: block, launch, local_size: local.size as usize })
}
