//! Builtins: pipes (OpenCL C 2.0, 6.13.16). The library does the work, with a packet's size, which producers append to the
//! arguments; its alignment does not matter. A reservation's number stands for its `reserve_id_t`.

use super::emit::{Emitter, Ir, Lane, Value};
use super::named::{INT, LONG, Named, POINTER};
use super::sub_group;
use super::table::nothing;
use super::work_item::barrier;

const BOOL: Ir = Ir::scalar(Lane::Int(1));
const LOCAL: Ir = Ir::scalar(Lane::Pointer(3));
const VOID: Ir = Ir::scalar(Lane::Void);

/// CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
const BOTH_FENCES: i128 = 3;

/// Where one work-item leaves a reservation for its group.
const SHARED: &str = "@spirula.pipe.reservation";

pub fn builtins() -> Vec<Named> {
    let mut list: Vec<Named> = ["read", "write"].into_iter().flat_map(of_side).collect();
    for what in ["num", "max"] {
        let name = format!("get_pipe_{what}_packets");
        list.push(Named::new(&format!("{name} __{name}_ro __{name}_wo"), 'i', "pii", move |e, arguments| {
            call(e, &format!("{what}_packets"), INT, &arguments[..1])
        }));
    }
    // SPIR 2.0's CLK_NULL_RESERVE_ID is null, today's clang's has all bits set.
    list.push(Named::new("is_valid_reserve_id", 'b', "p", |e, arguments| {
        let id = number(e, &arguments[0]);
        let id = e.cast("trunc", &id, INT.lane);
        let (one, limit) = (e.int(INT, 1), e.int(INT, 1));
        let next = e.binary("add", &id, &one);
        e.compare("icmp ugt", &next, &limit)
    }));
    list
}

/// The functions of readers or writers.
fn of_side(side: &'static str) -> Vec<Named> {
    let both = |name: &str| format!("{name} __{name}");
    let plain = Named::new(&format!("{side}_pipe __{side}_pipe_2"), 'i', "ppii", move |e, arguments| {
        call(e, side, INT, &arguments[..3])
    });
    let reserved = Named::new(&format!("{side}_pipe __{side}_pipe_4"), 'i', "ppipii", move |e, arguments| {
        let mut passed = arguments[..5].to_vec();
        passed[1] = number(e, &passed[1]);
        call(e, &format!("{side}_reserved"), INT, &passed)
    });
    let reserve = Named::new(&both(&format!("reserve_{side}_pipe")), 'p', "piii", move |e, arguments| {
        let number = make(e, side, arguments);
        reservation(e, &number)
    });
    let commit = Named::new(&both(&format!("commit_{side}_pipe")), 'v', "ppii", move |e, arguments| {
        end(e, side, arguments)
    });
    let group = format!("work_group_reserve_{side}_pipe");
    let group_reserve = Named::new(&both(&group), 'p', "piii", move |e, arguments| {
        // Those who still read the one before must have done so.
        wait(e);
        let shared = Value { ir: LOCAL, text: SHARED.to_owned() };
        e.declare(&format!("{SHARED} = internal addrspace(3) global i64 undef, align 8"));
        first_of_group(e, |e| {
            let number = make(e, side, arguments);
            e.store(&number, &shared, 8);
        });
        wait(e);
        let number = e.load(LONG, &shared, 8);
        reservation(e, &number)
    });
    let group = format!("work_group_commit_{side}_pipe");
    let group_commit = Named::new(&both(&group), 'v', "ppii", move |e, arguments| {
        wait(e);
        first_of_group(e, |e| drop(end(e, side, arguments)));
        nothing()
    });
    // The first work-item of a sub-group acts for it: the others take its reservation.
    let group = format!("sub_group_reserve_{side}_pipe");
    let sub_group_reserve = Named::new(&both(&group), 'p', "piii", move |e, arguments| {
        let own = e.value(POINTER, "alloca i64, align 8");
        let (none, first) = (e.int(LONG, 0), sub_group::first_active(e));
        e.store(&none, &own, 8);
        first_of_sub_group(e, &first, |e| {
            let number = make(e, side, arguments);
            e.store(&number, &own, 8);
        });
        let number = e.load(LONG, &own, 8);
        let number = sub_group::shuffle(e, &number, &first);
        reservation(e, &number)
    });
    let group = format!("sub_group_commit_{side}_pipe");
    let sub_group_commit = Named::new(&both(&group), 'v', "ppii", move |e, arguments| {
        let first = sub_group::first_active(e);
        first_of_sub_group(e, &first, |e| drop(end(e, side, arguments)));
        nothing()
    });
    let of_groups = [group_reserve, group_commit, sub_group_reserve, sub_group_commit];
    [plain, reserved, reserve, commit].into_iter().chain(of_groups.map(Named::of_group)).collect()
}

/// Calls a function of the library.
fn call(e: &mut Emitter, name: &str, result: Ir, arguments: &[Value]) -> Value {
    e.call(&format!("spirula_pipe_{name}"), result, arguments, "nounwind willreturn")
}

fn make(e: &mut Emitter, side: &str, arguments: &[Value]) -> Value {
    call(e, &format!("reserve_{side}"), LONG, &arguments[..2])
}

fn end(e: &mut Emitter, side: &str, arguments: &[Value]) -> Value {
    let id = number(e, &arguments[1]);
    call(e, &format!("commit_{side}"), VOID, &[arguments[0].clone(), id])
}

/// The number of a `reserve_id_t`.
fn number(e: &mut Emitter, id: &Value) -> Value {
    e.value(LONG, &format!("ptrtoint {id} to i64"))
}

/// The `reserve_id_t` of a number.
fn reservation(e: &mut Emitter, number: &Value) -> Value {
    e.value(POINTER, &format!("inttoptr {number} to ptr"))
}

fn wait(e: &mut Emitter) {
    let flags = e.int(INT, BOTH_FENCES);
    barrier(e, &flags);
}

/// Writes what one work-item of the group does.
fn first_of_group(e: &mut Emitter, write: impl FnOnce(&mut Emitter)) {
    let [x, y, z] = [0, 1, 2].map(|axis| e.primitive(&format!("local_id.{axis}"), LONG));
    let plane = e.binary("or", &x, &y);
    let place = e.binary("or", &plane, &z);
    let zero = e.int(LONG, 0);
    let is_first = e.compare("icmp eq", &place, &zero);
    only_if(e, &is_first, write);
}

/// Writes what work-item `first` of the sub-group does.
fn first_of_sub_group(e: &mut Emitter, first: &Value, write: impl FnOnce(&mut Emitter)) {
    let own = sub_group::query(e, "sub_group_local_id");
    let is_first = e.compare("icmp eq", &own, first);
    only_if(e, &is_first, write);
}

fn only_if(e: &mut Emitter, is_first: &Value, write: impl FnOnce(&mut Emitter)) {
    debug_assert_eq!(is_first.ir, BOOL);
    let [first, all] = [e.fresh(), e.fresh()];
    e.effect(&format!("br {is_first}, label %{first}, label %{all}"));
    e.label(&first);
    write(e);
    e.effect(&format!("br label %{all}"));
    e.label(&all);
}
