//! Random kernels: statements, and where control goes.

use super::kernel::{Surroundings, Writer};
use super::types::{Base, Ty};
use std::fmt::Write;

/// After so many statements a kernel only ends.
const ENOUGH: usize = 24;

impl Writer<'_> {
    pub fn statements(&mut self, most: usize, around: Surroundings, indent: usize) -> String {
        (0..1 + self.below(most)).map(|_| self.statement(around, indent)).collect()
    }

    fn statement(&mut self, around: Surroundings, indent: usize) -> String {
        let number = self.statements;
        self.statements += 1;
        if number >= ENOUGH {
            return String::new();
        }
        let together = around.together && !self.parted;
        let text = match self.below(if around.depth > 0 { 28 } else { 15 }) {
            0..4 => self.assign(),
            4 | 5 => self.array_store(),
            6 => self.own_store(),
            7 => self.byte_store(),
            8 => self.atomic(),
            9 if together => self.uniform_assign(),
            10..13 if together => self.exchange(),
            9..12 => self.assign(),
            12 | 13 => self.leave(around),
            14 => self.vector_component(),
            15..20 => self.branch(around, together, indent),
            20..25 => self.repeat(around, together, indent),
            25 => self.switch(around, together, indent),
            26 => self.leave(around),
            _ => self.call_with_pointer(),
        };
        if self.omitted.contains(&number) {
            String::new()
        } else {
            format!("{}{text}\n", "  ".repeat(indent))
        }
    }

    fn assign(&mut self) -> String {
        let all = self.variables.clone();
        let to = self.pick(&all);
        let value = self.expression(to.ty, 3);
        format!("{} = {value};", to.name)
    }

    fn uniform_assign(&mut self) -> String {
        let name = *self.pick(&["u1", "u2", "u3"]);
        match self.below(4) {
            0 => format!(
                "barrier(CLK_LOCAL_MEM_FENCE); {name} = loc[{} % lsize]; barrier(CLK_LOCAL_MEM_FENCE);",
                self.uniform(1)
            ),
            _ => format!("{name} = {};", self.uniform(2)),
        }
    }

    fn array_store(&mut self) -> String {
        let all = self.arrays.clone();
        if all.is_empty() {
            return self.assign();
        }
        let array = self.pick(&all).clone();
        if array.ty == Ty::UINT && self.once_in(4) {
            // Memory of one size that is accessed in another.
            let (index, value) = (self.uint(1), self.uint(1));
            return format!(
                "((uchar *){})[{index} & {}u] = (uchar)({value});",
                array.name,
                4 * array.length - 1
            );
        }
        let (index, value) = (self.uint(1), self.expression(array.ty, 2));
        format!("{}[{index} & {}u] = {value};", array.name, array.length - 1)
    }

    fn own_store(&mut self) -> String {
        let index =
            if self.once_in(2) { format!("{}u", self.below(8)) } else { format!("({} & 7u)", self.uint(1)) };
        if self.once_in(3) {
            let value = self.expression(Ty::scalar(Base::Float), 2);
            return format!("floats[POS({index})] = as_float(fbits({value}));");
        }
        format!("data[POS({index})] = {};", self.uint(2))
    }

    fn byte_store(&mut self) -> String {
        match self.below(4) {
            0 => {
                let ty = *self.pick(&[
                    Ty { base: Base::UInt, lanes: 2 },
                    Ty { base: Base::Int, lanes: 3 },
                    Ty { base: Base::UInt, lanes: 4 },
                    Ty { base: Base::UShort, lanes: 8 },
                    Ty { base: Base::UChar, lanes: 3 },
                    Ty { base: Base::ULong, lanes: 2 },
                ]);
                let (base, elements) = (ty.base.name(), 128 / ty.base.bits());
                let value = self.expression(ty, 2);
                format!("vstore{}({value}, 0, (global {base} *)bytes + item * {elements}u);", ty.lanes)
            }
            1 => {
                let field = *self.pick(&["a", "b", "c", "d"]);
                format!("((global struct record *)bytes)[item].{field} = {};", self.uint(2))
            }
            _ => {
                let (base, place) = self.own_bytes(1);
                format!("{place} = {};", self.expression(Ty::scalar(base), 2))
            }
        }
    }

    fn vector_component(&mut self) -> String {
        let vectors: Vec<_> = self.variables.iter().filter(|v| v.ty.lanes > 1).cloned().collect();
        if vectors.is_empty() {
            return self.own_store();
        }
        let to = self.pick(&vectors).clone();
        let value = self.expression(Ty::scalar(to.ty.base), 2);
        if self.once_in(3) && to.ty.lanes != 3 {
            return format!(
                "(({} *)&{})[{} & {}u] = {value};",
                to.ty.base.name(),
                to.name,
                self.uint(1),
                to.ty.lanes - 1
            );
        }
        format!("{}.s{:x} = {value};", to.name, self.below(to.ty.lanes))
    }

    /// On the work-item's own element with its result, or on everyone's without, where order does not matter.
    fn atomic(&mut self) -> String {
        let value = self.uint(1);
        if self.once_in(2) {
            // One operation for each element.
            let op = [("add", 0), ("or", 1), ("xor", 2), ("min", 3), ("max", 4)][self.below(5)];
            let place =
                if self.once_in(2) { format!("({} & 3u)", self.uint(1)) } else { self.below(4).to_string() };
            return format!("atomic_{}(&sums[{} * 4u + {place}], {value});", op.0, op.1);
        }
        let uints: Vec<_> =
            self.variables.iter().filter(|v| v.ty == Ty::UINT).map(|v| v.name.clone()).collect();
        let to = self.pick(&uints).clone();
        let place = format!("&data[POS({} & 7u)]", self.uint(1));
        let op = *self.pick(&["add", "sub", "xchg", "and", "or", "xor", "min", "max"]);
        if self.once_in(4) {
            return format!("{to} = atomic_cmpxchg({place}, {}, {value});", self.uint(0));
        }
        format!("{to} = atomic_{op}({place}, {value});")
    }

    /// Work-items show each other a value.
    fn exchange(&mut self) -> String {
        let uints: Vec<_> =
            self.variables.iter().filter(|v| v.ty == Ty::UINT).map(|v| v.name.clone()).collect();
        let to = self.pick(&uints).clone();
        let value = self.uint(2);
        let fence = "barrier(CLK_LOCAL_MEM_FENCE);";
        match self.below(3) {
            0 => {
                let op = *self.pick(&["add", "or", "xor", "max", "min"]);
                let (place, from) = (self.uint(1), self.uint(1));
                format!(
                    "{fence} atomic_{op}(&shared[{place} & 15u], {value}); {fence} {to} = shared[{from} & 15u]; {fence}"
                )
            }
            1 => format!(
                "{fence} loc[lid] = {value}; {fence} {to} = loc[(lid * {}u + {}u) % lsize]; {fence}",
                self.below(3),
                self.below(5)
            ),
            _ => format!(
                "{fence} loc[lsize - 1u - lid] = {value}; {fence} {to} += loc[{} % lsize]; {fence}",
                self.uint(1)
            ),
        }
    }

    fn branch(&mut self, around: Surroundings, together: bool, indent: usize) -> String {
        let uniform = self.once_in(3);
        let condition = if uniform { self.uniform_condition() } else { self.condition(2) };
        let inner = Surroundings { depth: around.depth - 1, together: together && uniform, ..around };
        let pad = "  ".repeat(indent);
        let mut text = format!("if ({condition}) {{\n{}{pad}}}", self.statements(3, inner, indent + 1));
        if self.once_in(2) {
            let _ = write!(text, " else {{\n{}{pad}}}", self.statements(3, inner, indent + 1));
        }
        text
    }

    /// A loop that all work-items of the group go through together, or one that each leaves when it likes.
    fn repeat(&mut self, around: Surroundings, together: bool, indent: usize) -> String {
        let together = together && self.once_in(2);
        let uniform = together || self.once_in(3);
        let counter = self.new_name("i");
        let limit = if uniform { self.uniform(1) } else { self.uint(1) };
        let condition = if together { self.uniform_condition() } else { self.condition(1) };
        let kind = self.below(4);
        let label = (!together && !around.bound && self.once_in(3)).then(|| self.new_name("out"));
        self.labels.extend(label.clone());
        self.counters.push((counter.clone(), together));
        let inner = Surroundings {
            depth: around.depth - 1,
            together,
            // In a loop that is not run together, inside of one that is, lanes may still leave the inner one.
            bound: together,
            in_loop: true,
            in_switch: false,
        };
        let body = self.in_loop(inner, around.bound, indent);
        self.counters.pop();
        if label.is_some() {
            self.labels.pop();
        }
        let pad = "  ".repeat(indent);
        let text = match kind {
            0 | 1 => {
                format!("for (uint {counter} = 0; {counter} < ({limit} & 7u); {counter}++) {{\n{body}{pad}}}")
            }
            2 => format!(
                "for (uint {counter} = 0; {condition} && {counter} < 6u; {counter} += 2u) {{\n{body}{pad}}}"
            ),
            _ => format!(
                "{{ uint {counter} = 0; do {{\n{body}{pad}}} while (++{counter} < 5u && {condition}); }}"
            ),
        };
        match label {
            Some(label) => format!("{text} {label}: ;"),
            None => text,
        }
    }

    /// The body of a loop; no label or return may be reached from it if it is part of one that is bound.
    fn in_loop(&mut self, inner: Surroundings, outer_bound: bool, indent: usize) -> String {
        let bound_outside = std::mem::replace(&mut self.bound_outside, outer_bound || inner.bound);
        let body = self.statements(4, inner, indent + 1);
        self.bound_outside = bound_outside;
        body
    }

    fn switch(&mut self, around: Surroundings, together: bool, indent: usize) -> String {
        let uniform = self.once_in(3);
        let value = if uniform { self.uniform(1) } else { self.uint(1) };
        let together = together && uniform;
        // What falls through comes to a case with others: still the whole group, or not together at all.
        let inner = Surroundings { depth: around.depth - 1, together, in_switch: true, ..around };
        let pad = "  ".repeat(indent);
        let mut text = format!("switch ({value} & 7u) {{\n");
        for case in 0..2 + self.below(4) {
            let _ = write!(text, "{pad}case {}u:\n{}", case * 3 % 7, self.statements(2, inner, indent + 1));
            if !self.once_in(4) {
                let _ = writeln!(text, "{pad}  break;");
            }
        }
        let _ = write!(text, "{pad}default:\n{}{pad}  ;\n{pad}}}", self.statements(2, inner, indent + 1));
        text
    }

    /// Break, continue, goto or return, for some work-items or, in a loop run together, for all.
    fn leave(&mut self, around: Surroundings) -> String {
        let condition = if around.bound { self.uniform_condition() } else { self.condition(1) };
        let mut ways: Vec<String> = Vec::new();
        // The group is together in the middle of a bound loop only where its own branches are uniform.
        let may_leave_loop = around.in_loop && (!around.bound || around.together);
        if may_leave_loop {
            ways.push("continue".into());
            if !around.in_switch {
                ways.extend(["break".into(), "break".into()]);
            }
        }
        if !self.bound_outside {
            ways.extend(self.labels.iter().map(|label| format!("goto {label}")));
            if self.once_in(3) {
                ways.push("return".into());
            }
        }
        if ways.is_empty() {
            return self.assign();
        }
        let way = self.pick(&ways).clone();
        if way == "return" {
            self.parted = true;
            let value = self.uint(1);
            return format!("if ({condition}) {{ data[POS(4)] = {value}; return; }}");
        }
        format!("if ({condition}) {way};")
    }

    /// Calls that stay calls, if the compiler keeps them.
    fn call_with_pointer(&mut self) -> String {
        let arrays: Vec<_> = self.arrays.iter().filter(|a| a.ty == Ty::UINT).cloned().collect();
        if arrays.is_empty() {
            return format!("poke(data, POS({} & 7u), {});", self.uint(1), self.uint(1));
        }
        let array = self.pick(&arrays);
        format!("poke_private({}, {} & {}u, {});", array.name, self.uint(1), array.length - 1, self.uint(1))
    }
}
