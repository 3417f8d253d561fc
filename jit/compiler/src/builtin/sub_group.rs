//! Builtins: sub-groups (OpenCL C 3.0, 6.15.19, and the extensions `cl_khr_subgroup_*`). All are made of a few operations that
//! Kernel IR has: reductions and scans, another work-item's value, and a ballot.

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{ANY, FIXED, Rows, SCALARS, nothing};
use super::work_group::{FORMS, combinations, synchronizing};

const BIT: Ir = Ir::scalar(Lane::Int(1));
const INT: Ir = Ir::scalar(Lane::Int(32));
const LONG: Ir = Ir::scalar(Lane::Int(64));
const CONVERGENT: &str = "convergent nounwind";

/// The number of a work-item, from the second argument.
type Index = fn(&mut Emitter, &Value) -> Value;

/// Names after `get_`, and the primitives.
const QUERIES: [&str; 6] = [
    "sub_group_size",
    "max_sub_group_size",
    "num_sub_groups",
    "enqueued_num_sub_groups",
    "sub_group_id",
    "sub_group_local_id",
];

pub fn rows(rows: &mut Rows) {
    for name in QUERIES {
        rows.expand(&format!("get_{name}"), FIXED, "uint()", move |e, _| query(e, name));
    }
    for pattern in ["void(uint)", "void(uint,#memory_scope)"] {
        synchronizing(rows, "sub_group_barrier", FIXED, pattern, |e, _| {
            // Who comes here is in a sub-group, even if the kernel asks for nothing else.
            let here = Value { ir: BIT, text: "true".into() };
            ballot(e, &here);
            e.effect("fence acq_rel");
            nothing()
        });
    }
    votes(rows);
    reductions(rows);
    ballots(rows);
    synchronizing(
        rows,
        "sub_group_broadcast sub_group_non_uniform_broadcast",
        ANY,
        "T(T,uint)",
        |e, call| shuffle(e, &call.arguments[0], &call.arguments[1]),
    );
    synchronizing(rows, "sub_group_broadcast_first", SCALARS, "T(T)", |e, call| {
        let first = first_active(e);
        shuffle(e, &call.arguments[0], &first)
    });
    // From whom each work-item takes its value.
    let from: [(&str, &str, Index); 5] = [
        ("sub_group_shuffle", "uint", |_, index| index.clone()),
        ("sub_group_shuffle_xor", "uint", |e, mask| own_and(e, "xor", mask)),
        ("sub_group_shuffle_up", "uint", |e, delta| own_and(e, "sub", delta)),
        ("sub_group_shuffle_down", "uint", |e, delta| own_and(e, "add", delta)),
        ("sub_group_rotate", "int", |e, delta| {
            let (to, size) = (own_and(e, "add", delta), query(e, "max_sub_group_size"));
            let one = e.int(INT, 1);
            let most = e.binary("sub", &size, &one);
            e.binary("and", &to, &most)
        }),
    ];
    for (name, second, index) in from {
        synchronizing(rows, name, SCALARS, &format!("T(T,{second})"), move |e, call| {
            let index = index(e, &call.arguments[1]);
            shuffle(e, &call.arguments[0], &index)
        });
    }
    synchronizing(rows, "sub_group_clustered_rotate", SCALARS, "T(T,int,uint)", |e, call| {
        let one = e.int(INT, 1);
        let most = e.binary("sub", &call.arguments[2], &one);
        let to = own_and(e, "add", &call.arguments[1]);
        let within = e.binary("and", &to, &most);
        let cluster = e.binary("xor", &most, &all_ones(e));
        let own = query(e, "sub_group_local_id");
        let start = e.binary("and", &own, &cluster);
        let index = e.binary("or", &start, &within);
        shuffle(e, &call.arguments[0], &index)
    });
}

pub(super) fn all_ones(e: &Emitter) -> Value {
    e.int(INT, -1)
}

fn votes(rows: &mut Rows) {
    for prefix in ["sub_group", "sub_group_non_uniform"] {
        synchronizing(rows, &format!("{prefix}_all"), FIXED, "int(int)", |e, call| {
            let zero = e.int(INT, 0);
            let against = e.compare("icmp eq", &call.arguments[0], &zero);
            decide(e, "icmp eq", &against)
        });
        synchronizing(rows, &format!("{prefix}_any"), FIXED, "int(int)", |e, call| {
            let zero = e.int(INT, 0);
            let for_it = e.compare("icmp ne", &call.arguments[0], &zero);
            decide(e, "icmp ne", &for_it)
        });
    }
    synchronizing(rows, "sub_group_non_uniform_all_equal", SCALARS, "int(T)", |e, call| {
        let value = &call.arguments[0];
        let first = first_active(e);
        let first = shuffle(e, value, &first);
        let differs = e.compare(if call.element.is_float() { "fcmp une" } else { "icmp ne" }, value, &first);
        decide(e, "icmp eq", &differs)
    });
    synchronizing(rows, "sub_group_elect", FIXED, "int()", |e, _| {
        let (first, own) = (first_active(e), query(e, "sub_group_local_id"));
        let chosen = e.compare("icmp eq", &first, &own);
        e.cast("zext", &chosen, INT.lane)
    });
}

fn reductions(rows: &mut Rows) {
    let types = (SCALARS, INTEGER_SCALARS);
    for form in FORMS {
        let names = |op: &str| {
            // Those for which all work-items come have three operations only.
            let uniform = ["add", "min", "max"].contains(&op);
            // The second name is that of cl_intel_subgroups_short and _char.
            let uniform = uniform.then(|| format!("sub_group_{form}_{op} intel_sub_group_{form}_{op} "));
            uniform.unwrap_or_default() + &format!("sub_group_non_uniform_{form}_{op}")
        };
        combinations(rows, names, types, "", &format!("sub_group_{form}"));
    }
    let names = |op: &str| format!("sub_group_clustered_reduce_{op}");
    combinations(rows, names, types, ",uint", "sub_group_clustered_reduce");
}

const INTEGER_SCALARS: super::pattern::Generic =
    super::pattern::Generic { elements: &super::types::Element::INTEGERS, widths: &[1] };

fn ballots(rows: &mut Rows) {
    synchronizing(rows, "sub_group_ballot", FIXED, "uint4(int)", |e, call| {
        let zero = e.int(INT, 0);
        let condition = e.compare("icmp ne", &call.arguments[0], &zero);
        let bits = ballot(e, &condition);
        as_uint4(e, &bits)
    });
    rows.expand("sub_group_inverse_ballot", FIXED, "int(uint4)", |e, call| {
        let own = query(e, "sub_group_local_id");
        bit_of(e, &call.arguments[0], &own)
    });
    rows.expand("sub_group_ballot_bit_extract", FIXED, "int(uint4,uint)", |e, call| {
        bit_of(e, &call.arguments[0], &call.arguments[1])
    });
    let counts: [(&str, Which); 3] =
        [("bit_count", Which::All), ("inclusive_scan", Which::Le), ("exclusive_scan", Which::Lt)];
    for (name, which) in counts {
        rows.expand(&format!("sub_group_ballot_{name}"), FIXED, "uint(uint4)", move |e, call| {
            let bits = considered(e, &call.arguments[0], which);
            let count = e.intrinsic("ctpop", &[bits]);
            e.cast("trunc", &count, INT.lane)
        });
    }
    for (name, intrinsic) in [("find_lsb", "cttz"), ("find_msb", "ctlz")] {
        rows.expand(&format!("sub_group_ballot_{name}"), FIXED, "uint(uint4)", move |e, call| {
            let bits = considered(e, &call.arguments[0], Which::All);
            let found = count_zeroes(e, intrinsic, &bits);
            if intrinsic == "cttz" {
                return found;
            }
            let last = e.int(INT, 63);
            e.binary("sub", &last, &found)
        });
    }
    for (name, which) in
        [("eq", Which::Eq), ("ge", Which::Ge), ("gt", Which::Gt), ("le", Which::Le), ("lt", Which::Lt)]
    {
        rows.expand(&format!("get_sub_group_{name}_mask"), FIXED, "uint4()", move |e, _| {
            let bits = mask(e, which);
            as_uint4(e, &bits)
        });
    }
}

/// Which work-items of the sub-group, seen from this one.
#[derive(Clone, Copy)]
enum Which {
    All,
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
}

/// Their bits.
fn mask(e: &mut Emitter, which: Which) -> Value {
    let (one, ones) = (e.int(LONG, 1), e.int(LONG, -1));
    let own = e.primitive("sub_group_local_id.0", LONG);
    let own_bit = e.binary("shl", &one, &own);
    let before = e.binary("sub", &own_bit, &one);
    let size = e.primitive("max_sub_group_size.0", LONG);
    let width = e.int(LONG, 64);
    let unused = e.binary("sub", &width, &size);
    let all = e.binary("lshr", &ones, &unused);
    let up_to = e.binary("or", &before, &own_bit);
    match which {
        Which::All => all,
        Which::Eq => own_bit,
        Which::Lt => before,
        Which::Le => up_to,
        Which::Gt => {
            let after = e.binary("xor", &up_to, &ones);
            e.binary("and", &after, &all)
        }
        Which::Ge => {
            let from = e.binary("xor", &before, &ones);
            e.binary("and", &from, &all)
        }
    }
}

/// The bits of a ballot that count.
fn considered(e: &mut Emitter, value: &Value, which: Which) -> Value {
    let mask = mask(e, which);
    let bits = as_bits(e, value);
    e.binary("and", &bits, &mask)
}

/// Bits as the uint4 that ballots are, and back: sub-groups have at most 64 work-items.
fn as_uint4(e: &mut Emitter, bits: &Value) -> Value {
    let half = e.int(LONG, 32);
    let (low, zero) = (e.cast("trunc", bits, INT.lane), e.int(INT, 0));
    let high = e.binary("lshr", bits, &half);
    let high = e.cast("trunc", &high, INT.lane);
    e.gather(&[low, high, zero.clone(), zero])
}

fn as_bits(e: &mut Emitter, value: &Value) -> Value {
    let [low, high] = [0, 1].map(|index| {
        let part = e.extract(value, index);
        e.cast("zext", &part, LONG.lane)
    });
    let half = e.int(LONG, 32);
    let high = e.binary("shl", &high, &half);
    e.binary("or", &low, &high)
}

fn bit_of(e: &mut Emitter, value: &Value, index: &Value) -> Value {
    let (bits, one) = (as_bits(e, value), e.int(LONG, 1));
    let most = e.int(INT, 63);
    let index = e.binary("and", index, &most);
    let index = e.cast("zext", &index, LONG.lane);
    let bit = e.binary("lshr", &bits, &index);
    let bit = e.binary("and", &bit, &one);
    e.cast("trunc", &bit, INT.lane)
}

/// 64 if no bit is set.
fn count_zeroes(e: &mut Emitter, intrinsic: &str, bits: &Value) -> Value {
    let never = Value { ir: BIT, text: "false".into() };
    let count = e.intrinsic(intrinsic, &[bits.clone(), never]);
    e.cast("trunc", &count, INT.lane)
}

/// A question that is answered with a number.
pub(super) fn query(e: &mut Emitter, name: &str) -> Value {
    let number = e.primitive(&format!("{name}.0"), LONG);
    e.cast("trunc", &number, INT.lane)
}

/// This work-item's number in the sub-group, combined with another.
pub(super) fn own_and(e: &mut Emitter, op: &str, other: &Value) -> Value {
    let own = query(e, "sub_group_local_id");
    e.binary(op, &own, other)
}

/// The bits of the work-items for which a condition holds.
fn ballot(e: &mut Emitter, condition: &Value) -> Value {
    e.call("spirula.sub_group_ballot", LONG, std::slice::from_ref(condition), CONVERGENT)
}

/// Compares a ballot with 0.
fn decide(e: &mut Emitter, comparison: &str, condition: &Value) -> Value {
    let bits = ballot(e, condition);
    let none = e.int(LONG, 0);
    let decision = e.compare(comparison, &bits, &none);
    e.cast("zext", &decision, INT.lane)
}

pub(super) fn first_active(e: &mut Emitter) -> Value {
    let here = Value { ir: BIT, text: "true".into() };
    let active = ballot(e, &here);
    count_zeroes(e, "cttz", &active)
}

/// Component by component.
pub(super) fn shuffle(e: &mut Emitter, value: &Value, index: &Value) -> Value {
    let lanes: Vec<Value> = (0..value.ir.width)
        .map(|component| {
            let part = e.extract(value, component);
            let name = format!("spirula.sub_group_shuffle.{}", part.ir.suffix());
            e.call(&name, part.ir, &[part, index.clone()], CONVERGENT)
        })
        .collect();
    e.gather(&lanes)
}
