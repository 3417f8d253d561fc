//! The LLVM back end: metadata. Address spaces don't overlap, constant memory does not change, and what a loop's iterations do to
//! shared memory does not depend on each other where Kernel IR says so.

use spirula_kir::{AccessGroup, AddressSpace, LoopHints};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The metadata of a text, by number.
#[derive(Default)]
pub(super) struct Metadata {
    scopes: u32,
    groups: BTreeMap<(u32, AccessGroup), u32>,
    loops: Vec<(Option<u32>, LoopHints)>,
}

/// One function's part of the numbers.
#[derive(Clone, Copy)]
pub(super) struct Scope(u32);

/// The spaces with an alias scope of their own, in order.
const SCOPED: [AddressSpace; 5] = [
    AddressSpace::Private,
    AddressSpace::Global,
    AddressSpace::Constant,
    AddressSpace::Local,
    AddressSpace::Context,
];

// Numbers: what never changes comes first, then each space's scope, its list, and the list of all others.
const EMPTY: usize = 0;
const DOMAIN: usize = 1;
const NO_VECTORIZE: usize = 2;
const NO_UNROLL: usize = 3;
const NO_HOIST: usize = 4;
const NONTEMPORAL: usize = 5;
const SCOPE: usize = 6;
const LIST: usize = SCOPE + SCOPED.len();
const OTHERS: usize = LIST + SCOPED.len();
const FREE: usize = OTHERS + SCOPED.len();

/// What stands behind a store past the caches.
pub(super) fn nontemporal() -> String {
    format!(", !nontemporal !{NONTEMPORAL}")
}

impl Metadata {
    pub(super) fn new_scope(&mut self) -> Scope {
        self.scopes += 1;
        Scope(self.scopes)
    }

    /// What stands behind an access to memory of a space.
    pub(super) fn access(
        &mut self,
        scope: Scope,
        space: AddressSpace,
        group: Option<AccessGroup>,
        load: bool,
    ) -> String {
        let mut text = String::new();
        if let Some(number) = SCOPED.iter().position(|&scoped| scoped == space) {
            text += &format!(", !alias.scope !{}, !noalias !{}", LIST + number, OTHERS + number);
        }
        if space == AddressSpace::Constant && load {
            text += &format!(", !invariant.load !{EMPTY}");
        }
        if let Some(group) = group {
            text += &format!(", !llvm.access.group !{}", group_number(self.group(scope, group)));
        }
        text
    }

    /// What stands behind the branch back to a loop's header.
    pub(super) fn loop_hints(&mut self, scope: Scope, hints: LoopHints) -> String {
        let parallel = hints.parallel.map(|group| self.group(scope, group));
        self.loops.push((parallel, hints));
        format!(", !llvm.loop !{}", loop_number(self.loops.len() - 1))
    }

    fn group(&mut self, scope: Scope, group: AccessGroup) -> u32 {
        let next = self.groups.len() as u32;
        *self.groups.entry((scope.0, group)).or_insert(next)
    }
}

// Groups and loops are found in turn: of each three numbers a group takes two, for itself and what loops say of it, and a
// loop the third.
fn group_number(group: u32) -> usize {
    FREE + 3 * group as usize
}

fn loop_number(number: usize) -> usize {
    FREE + 3 * number + 2
}

impl Display for Metadata {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        writeln!(f, "!{EMPTY} = !{{}}\n!{DOMAIN} = distinct !{{!{DOMAIN}, !\"spirula\"}}")?;
        writeln!(f, "!{NO_VECTORIZE} = !{{!\"llvm.loop.vectorize.enable\", i1 false}}")?;
        writeln!(f, "!{NO_UNROLL} = !{{!\"llvm.loop.unroll.disable\"}}")?;
        writeln!(f, "!{NO_HOIST} = !{{!\"llvm.licm.disable\"}}")?;
        writeln!(f, "!{NONTEMPORAL} = !{{i32 1}}")?;
        for (number, space) in SCOPED.iter().enumerate() {
            let scope = SCOPE + number;
            writeln!(f, "!{scope} = distinct !{{!{scope}, !{DOMAIN}, !\"{space}\"}}")?;
            writeln!(f, "!{} = !{{!{scope}}}", LIST + number)?;
            let others = (0..SCOPED.len()).filter(|&other| other != number);
            let others: Vec<String> = others.map(|other| format!("!{}", SCOPE + other)).collect();
            writeln!(f, "!{} = !{{{}}}", OTHERS + number, others.join(", "))?;
        }
        for group in 0..self.groups.len() as u32 {
            let number = group_number(group);
            writeln!(f, "!{number} = distinct !{{}}")?;
            writeln!(f, "!{} = !{{!\"llvm.loop.parallel_accesses\", !{number}}}", number + 1)?;
        }
        for (index, (parallel, hints)) in self.loops.iter().enumerate() {
            let number = loop_number(index);
            let parallel = parallel.map(|group| group_number(group) + 1);
            let properties = [
                parallel,
                hints.no_vectorize.then_some(NO_VECTORIZE),
                hints.no_unroll.then_some(NO_UNROLL),
                hints.no_hoist.then_some(NO_HOIST),
            ];
            let properties: String =
                properties.into_iter().flatten().map(|property| format!(", !{property}")).collect();
            writeln!(f, "!{number} = distinct !{{!{number}{properties}}}")?;
        }
        Ok(())
    }
}
