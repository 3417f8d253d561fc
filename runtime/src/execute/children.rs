//! Device-side enqueue: runs what kernels have enqueued, before the command that they belong to ends.
//!
//! A child begins when all of its parent's work-groups have ended, which each of OpenCL C's flags permits, or, unless it is to wait
//! for its parent, between two waves of them ([`waves`]) if its queue fills up; and when the events that it waits for have. The
//! newest parent's children come first: a tree of kernels is walked in depth, so that few of its nodes wait at a time, each in the
//! slots of its queue. Nothing here calls itself, and what is kept of a kernel that has ended is a node only if it has an
//! event: its children are otherwise its parent's own from then on. So memory is bounded by the queues' and the events' sizes,
//! however many kernels there are and however deep they nest.

mod waves;

use crate::context::Context;
use crate::error::{Error, Result, Status, code_name};
use crate::execute::check::Objects;
use crate::execute::fault::Deadline;
use crate::execute::group_size;
use crate::execute::launch::{ArgumentBlock, Invocation};
use crate::kernel::{LocalLayout, max_group_size, preferred_multiple};
use crate::log;
use crate::machine::timer;
use crate::memory::raw::Placed;
use crate::platform::device::{Device, DeviceInfo};
use crate::program::BuiltKernel;
use crate::queue::on_device::{DeviceQueue, DeviceQueues};
use spirula_interface::check::Bounds;
use spirula_interface::enqueue::host::{Child, Opened, OwnedEvents};
use spirula_interface::enqueue::{Head, KernelFacts, MARKER, Parent, WAIT_KERNEL, code};
use spirula_interface::program::Launch;
use std::collections::HashMap;
use std::sync::Arc;
pub(crate) use waves::Waves;

/// What a launch that may enqueue kernels holds.
#[derive(Debug)]
pub(crate) struct Enqueuing {
    /// The program's kernels, which children are named by.
    pub kernels: Arc<[BuiltKernel]>,
    /// The queues that its arguments name, and the default one.
    pub queues: Vec<Arc<DeviceQueue>>,
    pub default: Option<Arc<DeviceQueue>>,
}

/// What kernels may know of one of a program's kernels.
fn facts(kernel: &BuiltKernel, device: &Device) -> KernelFacts {
    KernelFacts {
        max_group_size: max_group_size(&kernel.info) as u32,
        preferred_multiple: preferred_multiple(&kernel.info, &device.info),
        sub_group_size: kernel.info.code.sub_group_size,
        rows_end_sub_groups: kernel.info.code.is_sub_group_size_required.into(),
        static_local_size: u32::try_from(kernel.info.code.static_local_size).unwrap_or(u32::MAX),
        remainder_groups: kernel.info.signature.remainder_groups.into(),
    }
}

/// Whether what a kernel's record says can be run: it said so itself, in memory that kernels write to.
fn check(opened: &Opened, facts: &KernelFacts, device: &DeviceInfo) -> Result<()> {
    let range = &opened.head.range;
    if !range.is_valid(facts, device.addresses.bytes()) {
        return Err(Status::InvalidWorkGroupSize.because(format!("it can't be run in {range:?}")));
    }
    match facts.check_locals(opened.locals.iter().copied(), device.local_mem_size) {
        code::SUCCESS => Ok(()),
        _ => Err(Status::OutOfResources.because(format!("local memory of {:?} bytes", opened.locals))),
    }
}

impl Enqueuing {
    /// Runs a kernel, and all that comes of it. `ended` is called when the kernel itself has. Errors: the first of them all.
    pub(crate) fn run(
        self,
        device: &Device,
        context: &Context,
        mut root: Waves,
        deadline: Deadline,
        ended: &dyn Fn(),
    ) -> Result<()> {
        let shared = &context.device_queues;
        let no_memory = || Status::OutOfResources.because("no memory for events of kernels on the device");
        let events = shared.events().ok_or_else(no_memory)?;
        let facts: Vec<KernelFacts> = self.kernels.iter().map(|kernel| facts(kernel, device)).collect();
        let placed = Placed::all(&shared.pool, &facts).ok_or_else(no_memory)?;
        let parent = Parent {
            default_queue: self.default.as_ref().map_or(0, |queue| queue.storage.address()),
            events: events.address(),
            kernels: placed.address(),
            kernel_count: facts.len() as u32,
            local_memory: device.info.local_mem_size,
            ..Parent::default()
        };
        let parent = Placed::all(&shared.pool, &[parent]).ok_or_else(no_memory)?;
        root.set_parent(parent.address());
        let objects = root.objects();
        let mut tree = Tree {
            device,
            context,
            shared,
            objects,
            events,
            kernels: &self.kernels,
            queues: &self.queues,
            parent: &parent,
            deadline,
            ended,
            nodes: vec![Node { open: 1, ..Node::default() }],
            free: Vec::new(),
            ready: Vec::new(),
            waiting: HashMap::new(),
            given_up: false,
            error: None,
        };
        tree.go_on(Begun {
            waves: root,
            children: Vec::new(),
            node: ROOT,
            kernel: None,
            event: 0,
            started: 0,
        });
        tree.run()
    }
}

/// A kernel that has not ended, or whose children have not.
#[derive(Debug, Default)]
struct Node {
    /// None for the root.
    parent: Option<usize>,
    /// Its children that have not ended with all of theirs, and itself until it has.
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

impl Pending<'_> {
    fn head(&self) -> Head {
        self.queue.storage.head(&self.child)
    }
}

/// A kernel that has begun.
struct Begun<'a> {
    waves: Waves,
    /// What it enqueued and the tree has not been given, the oldest first.
    children: Vec<Pending<'a>>,
    /// Whose children these are.
    node: usize,
    /// Its number; none for the root.
    kernel: Option<u32>,
    event: u64,
    started: u64,
}

/// What there is to do.
enum Step<'a> {
    Begin(Pending<'a>),
    GoOn(Begun<'a>),
}

/// The kernels that came of one command.
struct Tree<'a> {
    device: &'a Device,
    context: &'a Context,
    shared: &'a DeviceQueues,
    /// What checked kernels may access besides their arguments: what the root may.
    objects: Objects,
    events: &'a OwnedEvents,
    kernels: &'a [BuiltKernel],
    queues: &'a [Arc<DeviceQueue>],
    parent: &'a Placed<Parent>,
    /// Of them all.
    deadline: Deadline,
    /// Called when the root has ended.
    ended: &'a dyn Fn(),
    nodes: Vec<Node>,
    /// Nodes that are free.
    free: Vec<usize>,
    /// The last one is next.
    ready: Vec<Step<'a>>,
    /// By an event that has not ended.
    waiting: HashMap<u64, Vec<Pending<'a>>>,
    /// The root failed, or time is over: nothing else begins.
    given_up: bool,
    error: Option<Error>,
}

impl<'a> Tree<'a> {
    /// Does all that there is to do.
    fn run(mut self) -> Result<()> {
        while !self.ready.is_empty() || !self.waiting.is_empty() {
            match self.ready.pop() {
                Some(Step::Begin(pending)) if self.given_up => {
                    let Opened { head, waits, .. } = pending.queue.storage.open(pending.child);
                    waits.into_iter().for_each(|event| self.events.release(event));
                    self.end_event(head.event, Status::OutOfResources.code(), [0, 0]);
                }
                Some(Step::Begin(pending)) => self.begin(pending),
                Some(Step::GoOn(begun)) => self.go_on(begun),
                None => self.look_at_waiting(),
            }
        }
        self.error.map_or(Ok(()), Err)
    }

    /// Positive for an event that has not ended; one that is gone has.
    fn status(&self, event: u64) -> i32 {
        self.events.status(event).unwrap_or(0)
    }

    /// Begins a child, unless it must wait.
    fn begin(&mut self, pending: Pending<'a>) {
        let waits = pending.queue.storage.waits(&pending.child);
        if let Some(&event) = waits.iter().find(|&&event| self.status(event) > 0) {
            self.waiting.entry(event).or_default().push(pending);
            return;
        }
        let failed = waits.iter().map(|&event| self.status(event)).find(|&status| status < 0);
        let Pending { queue, child, node: parent } = pending;
        let opened = queue.storage.open(child);
        waits.into_iter().for_each(|event| self.events.release(event));
        let (kernel, event, started) = (opened.head.kernel, opened.head.event, timer());
        let node = self.node_for(parent, event, started);
        let waves = match failed {
            Some(status) => {
                let why = format!("an event that it waited for ended with {}", code_name(status));
                Err(Status::ExecStatusErrorForEventsInWaitList.because(why))
            }
            None if kernel == MARKER => Ok(None),
            None => self.waves(&opened).map(Some),
        };
        match waves {
            Ok(Some(waves)) => {
                let children = Vec::new();
                self.go_on(Begun { waves, children, node, kernel: Some(kernel), event, started });
            }
            Ok(None) => self.one_ended(node, 0),
            Err(error) => self.failed(kernel, node, error),
        }
    }

    /// The node that a child's children belong to: its own if it has an event, else its parent's.
    fn node_for(&mut self, parent: usize, event: u64, started: u64) -> usize {
        if event == 0 {
            return parent;
        }
        let node = self.free.pop().unwrap_or(self.nodes.len());
        let own = Node { parent: Some(parent), open: 1, event, started, ..Node::default() };
        match self.nodes.get_mut(node) {
            Some(place) => *place = own,
            None => self.nodes.push(own),
        }
        node
    }

    /// Runs a kernel's work-groups to the end, or until what they enqueued had better begin.
    fn go_on(&mut self, mut begun: Begun<'a>) {
        let result = loop {
            let seen = self.events.changes();
            let room = self.queues.iter().map(|queue| queue.storage.room()).min();
            let result = begun.waves.run(self.device, self.context, room.map_or(u64::MAX, u64::from));
            if self.events.changes() != seen {
                self.shared.tell();
            }
            self.collect(&mut begun);
            match result {
                Ok(true) if self.is_filling(&begun) => return self.suspend(begun),
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let Begun { children, node, kernel, event, started, .. } = begun;
        self.nodes[node].open += children.len();
        self.ready.extend(children.into_iter().rev().map(Step::Begin));
        if event != 0 {
            self.nodes[node].executed = timer().saturating_sub(started);
        }
        match (kernel, result) {
            (None, result) => {
                (self.ended)();
                self.given_up = result.is_err();
                self.error = result.err();
                self.one_ended(node, 0);
            }
            (Some(_), Ok(())) => self.one_ended(node, 0),
            (Some(kernel), Err(error)) => self.failed(kernel, node, error),
        }
    }

    /// Takes what a kernel has enqueued.
    fn collect(&self, begun: &mut Begun<'a>) {
        let before = begun.children.len();
        for queue in self.queues {
            let children = queue.storage.children(self.parent.lists()).into_iter();
            begun.children.extend(children.map(|child| Pending { queue, child, node: begun.node }));
        }
        let slots = begun.children[before..].iter().map(|new| u64::from(new.head().slots())).sum();
        begun.waves.took(slots);
    }

    /// Whether children that may begin fill much of a queue, or it is full but for little.
    fn is_filling(&self, begun: &Begun) -> bool {
        self.queues.iter().any(|queue| {
            let own = begun.children.iter().filter(|child| std::ptr::eq(child.queue, &**queue));
            let early = own.map(Pending::head).filter(|head| head.flags != WAIT_KERNEL);
            let (early, slots) = (early.map(|head| head.slots()).sum::<u32>(), queue.storage.slots());
            early >= slots.div_ceil(4) || early > 0 && queue.storage.room() < slots / 8
        })
    }

    /// Has those of a kernel's children begin that may, and the kernel go on behind them.
    fn suspend(&mut self, mut begun: Begun<'a>) {
        let (late, early): (Vec<_>, Vec<_>) =
            begun.children.drain(..).partition(|child| child.head().flags == WAIT_KERNEL);
        begun.children = late;
        self.nodes[begun.node].open += early.len();
        self.ready.push(Step::GoOn(begun));
        self.ready.extend(early.into_iter().rev().map(Step::Begin));
    }

    /// A child has ended with an error.
    fn failed(&mut self, kernel: u32, node: usize, error: Error) {
        let status = error.code();
        self.note(kernel, error);
        self.one_ended(node, status);
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

    /// A child's work-groups.
    fn waves(&self, opened: &Opened) -> Result<Waves> {
        let kernel = self.kernels.get(opened.head.kernel as usize);
        let kernel = kernel.ok_or_else(|| Status::InvalidKernel.because("the program has no such kernel"))?;
        check(opened, &facts(kernel, self.device), &self.device.info)?;
        let parts = parts(kernel, opened, self.device).into_iter();
        let parts = parts.map(|part| invocation(kernel, opened, part, (self.deadline, &self.objects)));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let mut waves = Waves::new(kernel.info.clone(), parts);
        waves.set_parent(self.parent.address());
        Ok(waves)
    }

    /// One child of a node has ended with all of its own, or the node itself; and so may it have with all, and its parents.
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
        self.ready.extend(self.waiting.remove(&event).into_iter().flatten().map(Step::Begin));
        self.shared.tell();
    }

    /// Time is over, and those that wait need not any more.
    fn give_up(&mut self) {
        self.given_up = true;
        let why = "a kernel that it enqueued waited for an event for longer than SPIRULA_TIMEOUT allows";
        self.error.get_or_insert_with(|| Status::OutOfResources.because(why));
        let waiting = std::mem::take(&mut self.waiting);
        self.ready.extend(waiting.into_values().flatten().map(Step::Begin));
    }

    /// Nothing can begin: events that others end, kernels or other commands, are what is waited for.
    fn look_at_waiting(&mut self) {
        let seen = self.events.changes();
        let (events, waiting) = (self.events, &mut self.waiting);
        let ended = |event: u64| events.status(event).is_none_or(|status| status <= 0);
        let due = waiting.extract_if(|event, _| ended(*event)).flat_map(|(_, pending)| pending);
        self.ready.extend(due.map(Step::Begin));
        if self.ready.is_empty() && !self.shared.wait(self.events, seen, self.deadline) {
            self.give_up();
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
fn invocation(
    kernel: &BuiltKernel,
    opened: &Opened,
    launch: Launch,
    (deadline, others): (Deadline, &Objects),
) -> Result<Arc<Invocation>> {
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
    let memory = kernel.tiers.first().code.at().memory.of_launches();
    let mut block = ArgumentBlock::new(&memory, size).ok_or_else(no_memory)?;
    let mut local = LocalLayout::new(&kernel.info);
    let bounds = |&size: &u64| Bounds { readable: size, writable: size, ..Bounds::default() };
    let objects = Objects { arguments: opened.locals.iter().map(bounds).collect(), ..others.clone() };
    for (argument, &size) in signature.arguments.iter().zip(&opened.locals) {
        let place = local.place(usize::try_from(size).unwrap_or(usize::MAX));
        block.put(argument.offset as usize, &place.to_ne_bytes());
    }
    block.put(captures, &opened.captures);
    Ok(Arc::new(Invocation {
        tiers: kernel.tiers.clone(),
        arguments: block,
        memory,
        launch,
        local_size: local.size as usize,
        deadline,
        objects,
        group_times: Default::default(),
    }))
}
