//! Kernel IR: operations, and the walk over their operands.

use super::{Intrinsic, ReduceOp, Slot, Value};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A place where a value or a private slot outlives its barrier region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContextSlot(pub u32);

/// Promises and permissions of one instruction; the names are LLVM's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flags(pub u16);

impl Flags {
    /// No promise.
    pub const NONE: Flags = Flags(0);
    /// Each flag's bit and its name in LLVM IR and in the text form, in the order in which LLVM prints them.
    pub const NAMES: [(u16, &'static str); 13] = [
        (1, "reassoc"),
        (1 << 1, "nnan"),
        (1 << 2, "ninf"),
        (1 << 3, "nsz"),
        (1 << 4, "arcp"),
        (1 << 5, "contract"),
        (1 << 6, "afn"),
        (1 << 7, "nuw"),
        (1 << 8, "nsw"),
        (1 << 9, "exact"),
        (1 << 10, "disjoint"),
        (1 << 11, "nneg"),
        (1 << 12, "samesign"),
    ];
    /// All fast-math permissions together.
    pub const FAST_MATH: u16 = 0x7f;
    /// Sums and products may be computed in another order.
    pub const REASSOC: u16 = 1;
    /// No operand or result is NaN.
    pub const NO_NANS: u16 = 1 << 1;
    /// A zero of either sign will do.
    pub const NO_SIGNED_ZEROS: u16 = 1 << 3;
    /// A division may become a product with the reciprocal.
    pub const RECIPROCAL: u16 = 1 << 4;
    /// Operations may become one that rounds once.
    pub const CONTRACT: u16 = 1 << 5;
    /// A function may be approximated.
    pub const APPROXIMATE: u16 = 1 << 6;
    /// No unsigned wrap.
    pub const NUW: u16 = 1 << 7;
    /// No signed wrap.
    pub const NSW: u16 = 1 << 8;
    /// The quotient or shift loses nothing.
    pub const EXACT: u16 = 1 << 9;
    /// The operands of an `or` share no bit.
    pub const DISJOINT: u16 = 1 << 10;
    /// The operand is not negative.
    pub const NNEG: u16 = 1 << 11;
    /// Both operands of a comparison have the same sign.
    pub const SAMESIGN: u16 = 1 << 12;
}

/// Declares an enum whose members carry LLVM's name of the operation.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs)]
        pub enum $name { $($variant),* }
        impl $name {
            /// Every member.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// LLVM's name, also the text form's.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
            /// The member of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|m| m.name() == name)
            }
        }
    };
}
pub(crate) use named;

named!(
    /// Operations on one value of the result's type.
    UnaryOp { FNeg "fneg", Freeze "freeze" }
);
named!(
    /// Operations on two values of the result's type.
    BinaryOp {
        Add "add", Sub "sub", Mul "mul", UDiv "udiv", SDiv "sdiv", URem "urem", SRem "srem",
        Shl "shl", LShr "lshr", AShr "ashr", And "and", Or "or", Xor "xor",
        FAdd "fadd", FSub "fsub", FMul "fmul", FDiv "fdiv", FRem "frem",
    }
);
named!(
    /// Conversions to the result's type.
    CastOp {
        Trunc "trunc", ZExt "zext", SExt "sext", FpToUi "fptoui", FpToSi "fptosi", UiToFp "uitofp", SiToFp "sitofp",
        FpTrunc "fptrunc", FpExt "fpext", PtrToInt "ptrtoint", IntToPtr "inttoptr", BitCast "bitcast",
        AddrSpaceCast "addrspacecast",
    }
);
named!(
    /// Integer and pointer comparisons.
    IntPredicate {
        Eq "eq", Ne "ne", Ugt "ugt", Uge "uge", Ult "ult", Ule "ule", Sgt "sgt", Sge "sge", Slt "slt", Sle "sle",
    }
);
named!(
    /// Floating-point comparisons.
    FloatPredicate {
        False "false", Oeq "oeq", Ogt "ogt", Oge "oge", Olt "olt", Ole "ole", One "one", Ord "ord",
        Ueq "ueq", Ugt "ugt", Uge "uge", Ult "ult", Ule "ule", Une "une", Uno "uno", True "true",
    }
);
named!(
    /// Atomic memory orderings.
    Ordering {
        Unordered "unordered", Monotonic "monotonic", Acquire "acquire", Release "release", AcqRel "acq_rel",
        SeqCst "seq_cst",
    }
);
named!(
    /// Atomic read-modify-write operations.
    RmwOp {
        Xchg "xchg", Add "add", Sub "sub", And "and", Nand "nand", Or "or", Xor "xor", Max "max", Min "min",
        UMax "umax", UMin "umin", FAdd "fadd", FSub "fsub", FMax "fmax", FMin "fmin",
    }
);
named!(
    /// What a work-item can ask about its place (OpenCL C 2.0, 6.13.1). All but `WorkDim` (i32, no dimension) are i64.
    /// `CachedStores` (no dimension) is 0 if the launch's stores may go past the caches, else -1. `DisjointBuffers` (no dimension)
    /// is 1 only if no two buffers that the kernel's parameters point to have memory in common.
    WorkItemQuery {
        GlobalId "global_id", LocalId "local_id", GroupId "group_id", LocalSize "local_size",
        EnqueuedLocalSize "enqueued_local_size", GlobalSize "global_size", NumGroups "num_groups", GlobalOffset "global_offset", WorkDim "work_dim",
        CachedStores "cached_stores", DisjointBuffers "disjoint_buffers",
        SubGroupId "sub_group_id", SubGroupLocalId "sub_group_local_id", SubGroupSize "sub_group_size",
        MaxSubGroupSize "max_sub_group_size", NumSubGroups "num_sub_groups",
        EnqueuedNumSubGroups "enqueued_num_sub_groups",
    }
);

impl WorkItemQuery {
    /// Whether work-items of one group get different answers.
    pub fn is_varying(self) -> bool {
        use WorkItemQuery::*;
        matches!(self, GlobalId | LocalId | SubGroupId | SubGroupLocalId | SubGroupSize)
    }

    /// Whether the answer depends on how a work-group is divided into sub-groups.
    pub fn sees_sub_groups(self) -> bool {
        use WorkItemQuery::*;
        matches!(
            self,
            SubGroupId
                | SubGroupLocalId
                | SubGroupSize
                | MaxSubGroupSize
                | NumSubGroups
                | EnqueuedNumSubGroups
        )
    }
}

/// A comparison's predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Predicate {
    Int(IntPredicate),
    Float(FloatPredicate),
}

/// What the work-items of a sub-group do together: those that come to the operation, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SubGroupOp {
    /// The combination of all values.
    Reduce(ReduceOp),
    /// The combination of all values within the clusters of so many neighbours that the second operand, a constant i32, says.
    ClusteredReduce(ReduceOp),
    /// The combination of the values of the work-items up to this one.
    InclusiveScan(ReduceOp),
    /// The combination of the values of the work-items before this one.
    ExclusiveScan(ReduceOp),
    /// The first operand of the work-item whose number in the sub-group is the second, an i32.
    Shuffle,
    /// An i64 with the bits of the work-items whose operand, an i1, is true.
    Ballot,
}

/// What an instruction computes. The result's type stands at its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Op {
    Unary {
        op: UnaryOp,
        flags: Flags,
        value: Value,
    },
    Binary {
        op: BinaryOp,
        flags: Flags,
        lhs: Value,
        rhs: Value,
    },
    Compare {
        predicate: Predicate,
        flags: Flags,
        lhs: Value,
        rhs: Value,
    },
    Cast {
        op: CastOp,
        flags: Flags,
        value: Value,
    },
    Select {
        flags: Flags,
        condition: Value,
        then: Value,
        otherwise: Value,
    },
    /// base + index*scale + offset, in bytes. `index` is an i64.
    Address {
        base: Value,
        index: Option<Value>,
        scale: i64,
        offset: i64,
        inbounds: bool,
    },
    /// The address of a private slot: one memory block for each work-item.
    SlotAddress(Slot),
    /// The address of a byte of the work-group's static local memory.
    LocalAddress {
        offset: u64,
    },
    /// The address of a variable of the linked module.
    GlobalAddress(Arc<str>),
    Load {
        pointer: Value,
        align: u32,
        volatile: bool,
        ordering: Option<Ordering>,
    },
    Store {
        pointer: Value,
        value: Value,
        align: u32,
        volatile: bool,
        ordering: Option<Ordering>,
    },
    /// Loads the active lanes of a vector: from consecutive places if `pointer` is one, else each lane from its own. The
    /// others get any value. Only in widened bodies.
    MaskedLoad {
        pointer: Value,
        mask: Value,
        align: u32,
    },
    /// Stores the active lanes of a vector, the last lane last. Only in widened bodies.
    MaskedStore {
        pointer: Value,
        value: Value,
        mask: Value,
        align: u32,
    },
    /// Stores past the caches. Others see it behind a `StreamingFence` of this thread.
    NontemporalStore {
        pointer: Value,
        value: Value,
        align: u32,
    },
    /// Orders this thread's stores past the caches before whatever it does next.
    StreamingFence,
    /// The group will leave the region by that exit. Only in widened bodies.
    SetExit(u32),
    AtomicRmw {
        op: RmwOp,
        pointer: Value,
        value: Value,
        ordering: Ordering,
        volatile: bool,
        align: u32,
    },
    /// Yields `{T, i1}`.
    CompareExchange {
        pointer: Value,
        expected: Value,
        replacement: Value,
        success: Ordering,
        failure: Ordering,
        weak: bool,
        volatile: bool,
        align: u32,
    },
    Fence(Ordering),
    ExtractElement {
        vector: Value,
        index: Value,
    },
    InsertElement {
        vector: Value,
        element: Value,
        index: Value,
    },
    /// Lane i is lane mask[i] of the two vectors laid end to end; -1 is any value.
    Shuffle {
        first: Value,
        second: Value,
        mask: Arc<[i32]>,
    },
    ExtractValue {
        aggregate: Value,
        indices: Arc<[u32]>,
    },
    InsertValue {
        aggregate: Value,
        value: Value,
        indices: Arc<[u32]>,
    },
    /// An operation of the table in `intrinsic.rs`.
    Intrinsic {
        intrinsic: Intrinsic,
        flags: Flags,
        arguments: Vec<Value>,
    },
    /// A function of the linked module that touches neither work-item ids nor barriers. `nocapture`: it keeps no copy of a
    /// pointer that it is given. `nosync`: it orders nothing between threads.
    Call {
        function: Arc<str>,
        pure: bool,
        nocapture: bool,
        nosync: bool,
        arguments: Vec<Value>,
    },
    /// The query's answer in a dimension 0 to 2.
    WorkItem {
        query: WorkItemQuery,
        dimension: u8,
    },
    /// The combination of all work-items' values of the group, which all of them reach; only before regions are formed.
    GroupReduce {
        op: ReduceOp,
        value: Value,
    },
    /// The combination of the values of the work-items that come before this one in the group, and of its own if
    /// `inclusive`; only before regions are formed.
    GroupScan {
        op: ReduceOp,
        inclusive: bool,
        value: Value,
    },
    /// A `GroupScan` in a barrier region, through which work-items go in the order of their numbers: the slot holds what those
    /// before this one left.
    ContextScan {
        slot: ContextSlot,
        inclusive: bool,
        value: Value,
    },
    /// What the work-items of a sub-group do together.
    SubGroup {
        op: SubGroupOp,
        arguments: Vec<Value>,
    },
    /// A value that crossed a region's border; only in barrier regions.
    ContextLoad(ContextSlot),
    /// Keeps a value for other regions, or adds it to a reduction's; only in barrier regions.
    ContextStore(ContextSlot, Value),
    /// The address of this work-item's part of a context slot that holds memory; only in barrier regions.
    ContextAddress(ContextSlot),
}

/// The only list of operands there is, for references that can change them and for those that can't.
macro_rules! each_operand {
    ($op:expr, $iter:ident, $visit:expr) => {{
        let mut visit = $visit;
        match $op {
            Op::Unary { value, .. }
            | Op::Cast { value, .. }
            | Op::ContextStore(_, value)
            | Op::GroupReduce { value, .. }
            | Op::GroupScan { value, .. }
            | Op::ContextScan { value, .. } => visit(value),
            Op::Binary { lhs, rhs, .. } | Op::Compare { lhs, rhs, .. } => {
                visit(lhs);
                visit(rhs);
            }
            Op::Select { condition, then, otherwise, .. } => {
                visit(condition);
                visit(then);
                visit(otherwise);
            }
            Op::Address { base, index, .. } => {
                visit(base);
                index.$iter().for_each(visit);
            }
            Op::Load { pointer, .. } => visit(pointer),
            Op::MaskedLoad { pointer, mask, .. } => {
                visit(pointer);
                visit(mask);
            }
            Op::MaskedStore { pointer, value, mask, .. } => {
                visit(pointer);
                visit(value);
                visit(mask);
            }
            Op::Store { pointer, value, .. }
            | Op::NontemporalStore { pointer, value, .. }
            | Op::AtomicRmw { pointer, value, .. } => {
                visit(pointer);
                visit(value);
            }
            Op::CompareExchange { pointer, expected, replacement, .. } => {
                visit(pointer);
                visit(expected);
                visit(replacement);
            }
            Op::ExtractElement { vector, index } => {
                visit(vector);
                visit(index);
            }
            Op::InsertElement { vector, element, index } => {
                visit(vector);
                visit(element);
                visit(index);
            }
            Op::Shuffle { first, second, .. } => {
                visit(first);
                visit(second);
            }
            Op::ExtractValue { aggregate, .. } => visit(aggregate),
            Op::InsertValue { aggregate, value, .. } => {
                visit(aggregate);
                visit(value);
            }
            Op::Intrinsic { arguments, .. } | Op::Call { arguments, .. } | Op::SubGroup { arguments, .. } => {
                arguments.$iter().for_each(visit);
            }
            Op::SlotAddress(_)
            | Op::LocalAddress { .. }
            | Op::GlobalAddress(_)
            | Op::Fence(_)
            | Op::StreamingFence
            | Op::SetExit(_)
            | Op::WorkItem { .. }
            | Op::ContextLoad(_)
            | Op::ContextAddress(_) => {}
        }
    }};
}

impl Op {
    /// Shows each operand.
    pub fn visit_operands(&self, mut visit: impl FnMut(Value)) {
        each_operand!(self, iter, |value: &Value| visit(*value));
    }

    /// Every operand.
    pub fn operands(&self) -> Vec<Value> {
        let mut list = Vec::new();
        self.visit_operands(|value| list.push(value));
        list
    }

    /// Every operand, to be changed.
    pub fn operands_mut(&mut self) -> Vec<&mut Value> {
        let mut list = Vec::new();
        each_operand!(self, iter_mut, |value| list.push(value));
        list
    }

    /// Whether it may write memory or do what can't be done twice, earlier or not at all.
    pub fn has_effect(&self) -> bool {
        match self {
            Op::Store { .. }
            | Op::MaskedStore { .. }
            | Op::NontemporalStore { .. }
            | Op::StreamingFence
            | Op::SetExit(_)
            | Op::AtomicRmw { .. }
            | Op::CompareExchange { .. }
            | Op::Fence(_)
            | Op::GroupReduce { .. }
            | Op::GroupScan { .. }
            | Op::ContextScan { .. }
            | Op::SubGroup { .. }
            | Op::ContextStore(..) => true,
            Op::Load { volatile, ordering, .. } => *volatile || ordering.is_some(),
            Op::Call { pure, .. } => !pure,
            Op::Intrinsic { intrinsic, .. } => intrinsic.effects().writes,
            _ => false,
        }
    }

    /// Whether it is atomic, or orders what is.
    pub fn is_atomic(&self) -> bool {
        match self {
            Op::Load { ordering, .. } | Op::Store { ordering, .. } => ordering.is_some(),
            Op::AtomicRmw { .. } | Op::CompareExchange { .. } | Op::Fence(_) => true,
            _ => false,
        }
    }

    /// For an operation behind which is seen what another thread released: from where, or none for a fence.
    pub fn acquires(&self) -> Option<Option<Value>> {
        let acquires =
            |order: Ordering| matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst);
        match self {
            Op::Load { pointer, ordering: Some(order), .. }
            | Op::AtomicRmw { pointer, ordering: order, .. } => acquires(*order).then_some(Some(*pointer)),
            Op::CompareExchange { pointer, success, failure, .. } => {
                (acquires(*success) || acquires(*failure)).then_some(Some(*pointer))
            }
            Op::Fence(order) => acquires(*order).then_some(None),
            _ => None,
        }
    }

    /// Whether it reads memory that may change.
    pub fn reads_memory(&self) -> bool {
        matches!(self, Op::Load { .. } | Op::MaskedLoad { .. } | Op::ContextLoad(_)) || self.has_effect()
    }

    /// Whether it yields the same value wherever and whenever it is evaluated with the same operands, without trapping.
    pub fn is_speculatable(&self) -> bool {
        let divides = matches!(
            self,
            Op::Binary { op: BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem, .. }
        );
        let calls = matches!(self, Op::Call { .. });
        // A frozen undefined value is one value: evaluating it anew could yield another.
        let freezes = matches!(self, Op::Unary { op: UnaryOp::Freeze, .. });
        !self.reads_memory() && !divides && !calls && !freezes
    }
}
