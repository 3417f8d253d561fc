//! Widening: what a region's body costs, scalar and in lanes, by the processor's costs.
//!
//! A loop takes as long as its instructions keep the processor busy, or as long as the longest chain of results from one iteration to
//! the next takes (`latency`), whichever is more. `price` says what each instruction costs.

mod latency;
mod loop_vectors;
mod pressure;
mod price;
mod shares;
mod ways;

use super::conflicts::Lines;
use super::{Facts, element_calls};
use crate::analysis::{Frequencies, Leaps, LoopId};
use crate::transform::ContextKind;
use crate::{Block, Function};
use latency::Chains;
use price::{Price, Prices};
use spirula_interface::target::{Costs, TargetFacts};

/// Estimates for one work-item in scalar code, and for one pack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub scalar: f64,
    pub pack: f64,
}

impl Cost {
    /// The same for both.
    fn both(cost: f64) -> Self {
        Cost { scalar: cost, pack: cost }
    }

    fn times(self, scalar: f64, pack: f64) -> Self {
        Cost { scalar: self.scalar * scalar, pack: self.pack * pack }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.scalar += other.scalar;
        self.pack += other.pack;
    }
}

/// A loop of which nothing is known is thought to have so many iterations.
const ITERATIONS: f64 = 32.0;
/// The same where work-items go round it for numbers of times of their own: what each has for itself, a word or a row's entries, is
/// shorter than what all share.
const OWN_ITERATIONS: f64 = 8.0;

/// The same of a loop that barriers lie in, of which this is what passes them all: a level of a sort, once its last step is done.
const PAST_BARRIERS: f64 = 1.0;

/// A pack stays in a loop as long as its longest work-item. (What inner loops make of it evens out: who takes long in one iteration of an
/// outer loop does not in another.)
const LONGEST: f64 = 1.3;

/// What the whole body costs.
pub(super) fn cost(
    body: &Function,
    facts: &Facts,
    context: &[ContextKind],
    lanes: u32,
    target: &TargetFacts,
) -> Cost {
    Model::new(body, facts, context, (lanes, target), Assumed::Nothing).whole()
}

/// What is taken for granted of a pack's lanes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Assumed {
    Nothing,
    /// All loops of which nothing is known are equally long, whoever leaves them when: to compare bodies that compute the same, in which
    /// lanes leave them together or one by one.
    LoopsAlike,
    /// Lanes happen to go the same ways.
    Together,
    /// Lines of the rows that lanes walk along drive each other out of the first cache.
    Conflicts,
}

/// What a pack costs if that is so.
pub(super) fn cost_if(
    assumed: Assumed,
    body: &Function,
    facts: &Facts,
    context: &[ContextKind],
    (lanes, target): (u32, &TargetFacts),
) -> f64 {
    let mut model = Model::new(body, facts, context, (lanes, target), assumed);
    if assumed == Assumed::Together {
        model.of_pack = Frequencies::new(body, &facts.flow, &facts.loops);
    }
    model.whole().pack
}

/// What a pack spends most of that on, in words.
pub(super) fn longest(
    body: &Function,
    facts: &Facts,
    context: &[ContextKind],
    lanes: u32,
    target: &TargetFacts,
) -> Vec<String> {
    shares::longest(&Model::new(body, facts, context, (lanes, target), Assumed::Nothing))
}

struct Model<'a> {
    body: &'a Function,
    facts: &'a Facts,
    lanes: u32,
    costs: Costs,
    prices: Prices<'a>,
    insts: Vec<Price>,
    frequencies: Frequencies,
    /// How often some lane comes to a block.
    of_pack: Frequencies,
    /// What a pack spends in each block on values that find no register.
    spills: Vec<f64>,
    assumed: Assumed,
}

impl<'a> Model<'a> {
    fn new(
        body: &'a Function,
        facts: &'a Facts,
        context: &'a [ContextKind],
        (lanes, target): (u32, &TargetFacts),
        assumed: Assumed,
    ) -> Self {
        let TargetFacts { vector_bits: register_bits, costs, .. } = *target;
        let leaps = Leaps::new(body, &facts.loops);
        let together = element_calls::shares(body);
        let lines = Lines::new(body, facts, &leaps, lanes);
        let prices = Prices {
            body,
            facts,
            leaps,
            together,
            context,
            lanes,
            register_bits,
            costs,
            lines,
            conflicts: assumed == Assumed::Conflicts,
        };
        let insts: Vec<Price> = (body.blocks.iter().enumerate())
            .flat_map(|(block, data)| data.insts.iter().map(move |&inst| (block, inst)))
            .fold(vec![Price::default(); body.inst_count()], |mut all, (block, inst)| {
                all[inst.index()] = prices.instruction(Block(block as u32), inst);
                all
            });
        let frequencies = Frequencies::new(body, &facts.flow, &facts.loops);
        let parts = |block: Block| {
            facts.shapes.is_divergent_branch(block) && !ways::part_in_one_pack(body, &facts.shapes, block)
        };
        let of_pack = frequencies.of_pack(body, &facts.flow, &facts.loops, lanes, &parts);
        let spills = pressure::spills(&prices);
        Model { body, facts, lanes, costs, prices, insts, frequencies, of_pack, spills, assumed }
    }

    fn whole(&self) -> Cost {
        let loops = &self.facts.loops;
        // What stands directly in a loop, by the loop's number, and behind the loops what stands in none.
        let mut own: Vec<Vec<Block>> = vec![Vec::new(); loops.count() + 1];
        for block in self.facts.flow.reverse_post_order().iter().filter(|block| block.0 > 0) {
            own[loops.innermost(*block).map_or(loops.count(), |id| id.0)].push(*block);
        }
        let mut chains = Chains::new(self.body);
        // Time and instructions of an iteration of each level.
        let mut busy = vec![Cost::default(); loops.count() + 1];
        let mut has_inner = vec![false; loops.count() + 1];
        for number in (0..loops.count()).rev() {
            let id = LoopId(number);
            busy[number] += self.blocks(&own[number], &mut chains);
            let (chain, longer) = if has_inner[number] {
                (Cost::default(), 1.0)
            } else {
                (chains.longest(self.body, &own[number], &self.prices.leaps, &self.insts), self.longer(id))
            };
            let gain = if has_inner[number] { 1.0 } else { self.gain_of_scalar(id) };
            let (busy_in_vectors, chain) =
                (busy[number].times(1.0 / gain, 1.0), chain.times(1.0 / gain, 1.0));
            let parent = loops.get(id).parent;
            let level = parent.map_or(loops.count(), |parent| parent.0);
            has_inner[level] = true;
            let whole = self.iterate(id, busy_in_vectors, self.behind_masks(id, chain)).times(1.0, longer);
            busy[level] += whole.times(self.frequencies.entered(id), self.of_pack.entered(id));
        }
        busy[loops.count()] += self.blocks(&own[loops.count()], &mut chains);
        busy[loops.count()]
    }

    /// How many times as fast scalar code is for a loop's iterations being vectors.
    fn gain_of_scalar(&self, id: LoopId) -> f64 {
        let register_bits = self.prices.register_bits;
        loop_vectors::gain(self.body, &self.facts.loops, &self.prices.leaps, (id, register_bits))
    }

    /// A loop's chain, which in a pack goes through the lanes that stay in the loop as well, unless these are seldom asked for.
    fn behind_masks(&self, id: LoopId, chain: Cost) -> Cost {
        let waits = self.parts_in(id) && !self.facts.seldom_left.contains(id);
        let masks = if waits { self.costs.latency.mask } else { 0.0 };
        Cost { pack: chain.pack.max(masks), ..chain }
    }

    /// A loop from its entry to its end.
    fn iterate(&self, id: LoopId, busy: Cost, chain: Cost) -> Cost {
        let iterations = self.iterations(id);
        let time = |busy: f64, chain: f64, of_one: f64| {
            // Where a loop is short, the next one begins before it has ended.
            let overlap = self.overlap(busy * iterations / of_one);
            iterations * busy.max(chain / overlap)
        };
        let Costs { scalar, vector, .. } = self.costs;
        Cost { scalar: time(busy.scalar, chain.scalar, scalar), pack: time(busy.pack, chain.pack, vector) }
    }

    /// How many times as long a pack stays in a loop as one of its work-items does.
    fn longer(&self, id: LoopId) -> f64 {
        if self.parts_in(id) { LONGEST } else { 1.0 }
    }

    /// Whether a pack's lanes leave a loop one by one.
    fn parts_in(&self, id: LoopId) -> bool {
        self.facts.shapes.is_divergent_loop(id) && self.assumed != Assumed::Together
    }

    /// How many times over the processor is at work on so many instructions that wait for each other: while the last of them wait, the
    /// first that come behind them are begun.
    fn overlap(&self, instructions: f64) -> f64 {
        1.0 + self.costs.window / instructions.max(1.0)
    }

    fn iterations(&self, id: LoopId) -> f64 {
        let is_own = self.assumed == Assumed::LoopsAlike || self.facts.shapes.is_divergent_loop(id);
        let guess = match is_own {
            _ if self.frequencies.is_retry(id) => 1.0,
            _ if self.body.cut_loops.contains(&self.facts.loops.get(id).header) => PAST_BARRIERS,
            true => OWN_ITERATIONS,
            false => ITERATIONS,
        };
        self.frequencies.iterations(id).map_or(guess, |n| n as f64)
    }

    fn blocks(&self, blocks: &[Block], chains: &mut Chains) -> Cost {
        let mut sum = Cost::default();
        for &block in blocks {
            let mut here = self.prices.branch(block);
            for &inst in &self.body.block(block).insts {
                here += self.insts[inst.index()].busy;
            }
            // What comes behind a long block is not begun before its results are there.
            let overlap = self.overlap(self.body.block(block).insts.len() as f64);
            let chain = chains.within(self.body, block, &self.insts).times(1.0 / overlap, 1.0 / overlap);
            here = latency::later(here, chain);
            let scalar = self.frequencies.of(block);
            sum += here.times(scalar, self.of_pack.of(block));
            // What is done for each lane in turn is done for those that come here.
            let each = self.body.block(block).insts.iter().map(|inst| self.insts[inst.index()].each_lane);
            sum.pack += each.sum::<f64>() * f64::from(self.lanes) * scalar;
            sum.pack += self.spills[block.index()] * self.of_pack.of(block);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::transform::{Region, form_regions};

    /// A sort's levels, whose steps a barrier ends: regions know that of either loop they have what passes it.
    #[test]
    fn loops_with_barriers_are_known_in_regions() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {
b0:
  %2: i64 = local_id 0
  %3: i32 = load %0, align 4
  %4: ptr(global) = address %0 + %2*4 + 0
  jump b1(1:i32)
b1(%5: i32):
  %6: i1 = icmp ult %5, %3
  branch %6, b2(%5), b5
b2(%7: i32):
  %8: i1 = icmp eq %7, 0:i32
  branch %8, b4, b3
b3:
  %9: i32 = load %4, align 4
  %10: i32 = add %9, %7
  store %4, %10, align 4
  %11: i32 = lshr %7, 1:i32
  barrier b2(%11)
b4:
  %12: i32 = shl %5, 1:i32
  jump b1(%12)
b5:
  return
}";
        let group = form_regions(parse(text).unwrap());
        let is_cut = |region: &&Region| !region.body.cut_loops.is_empty();
        let cut = group.regions.iter().filter(is_cut).count();
        assert!(0 < cut && cut < group.regions.len(), "{cut} of {} regions", group.regions.len());
    }

    #[test]
    fn what_passes_all_barriers_is_one_iteration() {
        let group = form_regions(parse(&kernel(&format!("{COLUMNS}{SUM}"))).unwrap());
        let estimate = |body: &Function| {
            let facts = Facts::new(body, &group.context, 16).unwrap();
            cost(body, &facts, &group.context, 16, &TargetFacts::with_vectors(512))
        };
        let mut body = group.regions[0].body.clone();
        let whole = estimate(&body);
        let flow = crate::analysis::ControlFlow::new(&body);
        body.cut_loops = vec![crate::analysis::Loops::new(&flow).unwrap().get(LoopId(0)).header];
        let passed = estimate(&body);
        assert!(
            passed.scalar < whole.scalar / 8.0 && passed.pack < whole.pack / 8.0,
            "{passed:?}, {whole:?}"
        );
    }

    /// How many times as fast 16 lanes are thought to be for a loop whose body this is: %0 and %1 are buffers, %2 a size, %3 the
    /// work-item, %10 its row, %4 the counter, %5 a float that is carried, %6 the next one.
    fn gain(body: &str) -> f64 {
        gain_of(&kernel(body))
    }

    fn kernel(body: &str) -> String {
        format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {{\nb0:\n  %3: i64 = global_id 0\n  %10: i64 = global_id 1\n  jump b1(0:i64, 0x0:f32)\n\
             b1(%4: i64, %5: f32):\n  %9: i1 = icmp ult %4, %2\n  branch %9, b2, b3\nb2:\n{body}  %8: i64 = add %4, 1:i64\n  jump b1(%8, %6)\n\
             b3:\n  %7: ptr(global) = address %1 + %3*4 + 0\n  store %7, %5, align 4\n  return\n}}"
        )
    }

    /// The same for a kernel's only region.
    fn gain_of(text: &str) -> f64 {
        let group = form_regions(parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = &group.regions[0].body;
        let facts = Facts::new(body, &group.context, 16).unwrap();
        let cost = cost(body, &facts, &group.context, 16, &TargetFacts::with_vectors(512));
        16.0 * cost.scalar / cost.pack
    }

    const COLUMNS: &str = "  %20: i64 = mul %4, %2\n  %21: i64 = add %20, %3\n  %22: ptr(global) = address %0 + %21*4 + 0\n  %23: f32 = load %22, align 4\n";
    const ROWS: &str = "  %20: i64 = mul %3, %2\n  %24: i64 = add %20, %10\n  %21: i64 = add %24, %4\n  %22: ptr(global) = address %0 + %21*4 + 0\n  %23: f32 = load %22, align 4\n";
    const SCATTERED: &str = "  %20: i64 = mul %3, %2\n  %21: i64 = xor %20, %4\n  %22: ptr(global) = address %0 + %21*4 + 0\n  %23: f32 = load %22, align 4\n";
    const SUM: &str = "  %6: f32 = fadd %5, %23\n";
    /// What does not wait for itself.
    const LAST: &str = "  %6: f32 = fadd %23, %23\n";

    #[test]
    fn sums_wait_for_themselves() {
        let gains =
            [COLUMNS, ROWS, SCATTERED].map(|load| [SUM, LAST].map(|sum| gain(&format!("{load}{sum}"))));
        let [columns, rows, scattered] = gains;
        assert!(columns[0] > 10.0 && columns[0] >= columns[1], "{gains:?}");
        // 16 gathers take as long as a sum waits.
        let of_sum = columns[0] / 4.0;
        assert!(
            scattered[0] > 1.0 && scattered[0] < of_sum && scattered[1] < scattered[0] / 1.3,
            "{gains:?}"
        );
        // Strips of them do not.
        assert!(rows[0] > 2.0 * scattered[0] && rows[0] < columns[0], "{gains:?}");
    }

    #[test]
    fn packs_wait_for_who_stays_in_a_loop() {
        // A search: it goes on while it finds less than the work-item's own number.
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8) {\nb0:\n  %2: i64 = global_id 0\n  %3: ptr(global) = address %1 + %2*4 + 0\n  \
                    %4: i32 = load %3, align 4\n  jump b1(0:i64)\nb1(%5: i64):\n  %6: ptr(global) = address %0 + %5*4 + 0\n  %7: i32 = load %6, align 4\n  \
                    %8: i1 = icmp ult %7, %4\n  %9: i64 = add %5, 1:i64\n  branch %8, b1(%9), b2\nb2:\n  %10: i32 = trunc %5\n  store %3, %10, align 4\n  return\n}";
        let group = form_regions(parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = &group.regions[0].body;
        let of_lanes = |lanes: u32, mask: f64| {
            let mut target = TargetFacts::with_vectors(512);
            target.costs.latency.mask = mask;
            let facts = Facts::new(body, &group.context, lanes).unwrap();
            cost(body, &facts, &group.context, lanes, &target).pack
        };
        // Twice the lanes take hardly longer where both wait.
        let longer = |mask: f64| of_lanes(32, mask) / of_lanes(16, mask);
        assert!(longer(60.0) < longer(0.0) && longer(60.0) < 1.2, "{} {}", longer(60.0), longer(0.0));
    }

    #[test]
    fn rows_that_lanes_go_through_cost_more_than_what_lies_near() {
        // Every other element, of which there are no strips.
        let rows =
            ROWS.replace("add %24, %4", "add %24, %25").replace("  %21", "  %25: i64 = shl %4, 1:i64\n  %21");
        let text = kernel(&format!("{rows}{LAST}"));
        let near =
            text.replace("%0: ptr(global)", "%0: ptr(local)").replace("%22: ptr(global)", "%22: ptr(local)");
        let [rows, near] = [text, near].map(|text| gain_of(&text));
        assert!(rows < 0.7 * near, "{rows} {near}");
    }

    #[test]
    fn what_lies_as_far_apart_is_no_gather() {
        let [strided, scattered] = ["add %25, %10", "mul %25, %25"].map(|sum| {
            gain(&format!(
                "  %25: i64 = mul %3, %2\n  %21: i64 = {sum}\n  \
                           %22: ptr(global) = address %0 + %21*4 + 0\n  %23: f32 = load %22, align 4\n{LAST}"
            ))
        });
        assert!(strided > 1.2 * scattered, "{strided} {scattered}");
    }

    #[test]
    fn bits_that_are_nowhere_in_both_are_sums_of_rows() {
        let of = |sum: &str| gain(&format!("{}{LAST}", ROWS.replace("add %24, %4", sum)));
        let (rows, bits) = (of("add %24, %4"), of("or disjoint %24, %4"));
        assert!((bits / rows - 1.0).abs() < 0.1 && of("or %24, %4") < rows / 2.0, "{rows} {bits}");
    }

    #[test]
    fn comparing_ids_costs_packs_no_second_way() {
        let gain = |compared: &str| {
            let word = |n: usize| {
                format!("  %{n}: ptr(global) = address %2 + {}\n  store %{n}, %3, align 4\n", 4096 * n)
            };
            let body: String = (20..40).map(word).collect();
            gain_of(&format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %9: i32 @ 8) {{\nb0:\n  %1: i64 = local_id 0\n  %2: ptr(global) = address %0 + %1*4 + 0\n  \
                 %3: i32 = load %2, align 4\n  %4: i32 = trunc %1\n  %5: i1 = icmp ult {compared}, %9\n  branch %5, b1, b2\n\
                 b1:\n{body}  jump b3\nb2:\n  store %2, %9, align 4\n  jump b3\nb3:\n  return\n}}"
            ))
        };
        let (id, word) = (gain("%4"), gain("%3"));
        assert!(id > 1.2 * word, "{id} {word}");
    }

    #[test]
    fn scalar_code_fetches_the_lines_of_columns_again() {
        // Rows of four elements, of which the next iteration accesses the same line.
        let short = COLUMNS.replace("mul %4, %2", "mul %4, 4:i64");
        let [columns, short] = [COLUMNS, &short].map(|load| gain(&format!("{load}{LAST}")));
        assert!(columns > 1.1 * short, "{columns} {short}");
    }

    #[test]
    fn looking_up_alone_is_left_to_scalar_code() {
        // %5 is a byte of the input, %8 what is stored.
        let gain = |text: &str| {
            gain_of(&format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: ptr(global) @ 16) {{\nb0:\n  %10: i64 = global_id 0\n\
                 %11: i32 = trunc %10\n  %3: i64 = sext %11\n  %4: ptr(global) = address %0 + %3*1 + 0\n  %5: i8 = load %4, align 1\n{text}\
                 %9: ptr(global) = address %2 + %3*1 + 0\n  store %9, %8, align 1\n  return\n}}"
            ))
        };
        let table =
            "  %6: i64 = zext %5\n  %7: ptr(global) = address %1 + %6*1 + 0\n  %8: i8 = load %7, align 1\n";
        let (table, plain) = (gain(table), gain("  %8: i8 = add %5, 1:i8\n"));
        assert!(table < 1.0 && plain > 4.0, "{table} {plain}");
    }

    /// A kernel without loops that computes so much from a word.
    fn straight(body: &str, last: &str) -> String {
        format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  %1: i64 = global_id 0\n  %2: ptr(global) = address %0 + %1*4 + 0\n  \
             %3: i32 = load %2, align 4\n{body}  store %2, {last}, align 4\n  return\n}}"
        )
    }

    #[test]
    fn scalar_code_waits_for_results_in_long_blocks_too() {
        // Each result by the two that are so far before it.
        let gain = |apart: usize| {
            let of = |n: usize| if n < 10 { 3 } else { n };
            let add = |n: usize| format!("  %{n}: i32 = add %{}, %{}\n", of(n - apart), of(n - apart - 1));
            gain_of(&straight(&(10..810).map(add).collect::<String>(), "%809"))
        };
        let (chain, parallel) = (gain(1), gain(8));
        assert!(chain > 1.5 * parallel, "{chain} {parallel}");
    }

    #[test]
    fn packs_whose_lanes_go_together_go_one_way() {
        let gather = |n: u32, at: &str| {
            format!("  %{n}: ptr(global) = address %0 + {at}*4 + 0\n  %{}: i32 = load %{n}, align 4\n", n + 1)
        };
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  %1: i64 = global_id 0\n  %2: ptr(global) = address %0 + %1*4 + 0\n  \
             %3: i32 = load %2, align 4\n  %4: i64 = zext %3\n  %5: i1 = icmp ult %3, 9:i32\n  branch %5, b1, b2\n\
             b1:\n{}  jump b3(%7)\nb2:\n{}{}  jump b3(%11)\nb3(%12: i32):\n  store %2, %12, align 4\n  return\n}}",
            gather(6, "%4"),
            "  %8: i64 = xor %4, 5:i64\n  %9: i64 = add %8, 1:i64\n",
            gather(10, "%9"),
        );
        let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = &group.regions[0].body;
        let facts = Facts::new(body, &group.context, 16).unwrap();
        let target = TargetFacts::with_vectors(512);
        let Cost { pack, .. } = cost(body, &facts, &group.context, 16, &target);
        let together = cost_if(Assumed::Together, body, &facts, &group.context, (16, &target));
        assert!(together < 0.8 * pack, "{together} {pack}");
    }

    #[test]
    fn what_is_not_used_meanwhile_costs_nothing_in_memory() {
        // So many words are kept while something else is computed, or are used all the time.
        let gain = |kept: usize, used: bool| {
            let load = |n: usize| {
                let (at, word) = (1000 + n, 2000 + n);
                format!(
                    "  %{at}: ptr(global) = address %2 + {}\n  %{word}: i32 = load %{at}, align 4\n",
                    4096 * n
                )
            };
            let mut body: String = (0..kept).map(load).collect();
            let other = |n: usize| if used { format!("%{}", 2000 + n % kept) } else { "%3".into() };
            let of = |n: usize| if n == 10 { 3 } else { n - 1 };
            body.extend((10..610).map(|n| format!("  %{n}: i32 = add %{}, {}\n", of(n), other(n))));
            let sum = |n: usize| {
                let before = if n == 0 { "%609".into() } else { format!("%{}", 3000 + n - 1) };
                format!("  %{}: i32 = add {before}, %{}\n", 3000 + n, 2000 + n)
            };
            body.extend((0..kept).map(sum));
            gain_of(&straight(&body, &format!("%{}", 3000 + kept - 1)))
        };
        let (fits, kept, used) = (gain(20, true), gain(60, false), gain(60, true));
        assert!(kept > 0.8 * fits && used < 0.8 * fits, "{fits} {kept} {used}");
    }

    #[test]
    fn the_longest_operations_are_told() {
        let told = |body: &str| {
            let text = straight(body, "%9");
            let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
            let body = &group.regions[0].body;
            let facts = Facts::new(body, &group.context, 16).unwrap();
            longest(body, &facts, &group.context, 16, &TargetFacts::with_vectors(512))
        };
        let of_index = |index: &str| {
            told(&format!(
                "  %4: i64 = {index}\n  %5: ptr(global) = address %0 + %4*4 + 0\n  %9: i32 = load %5, align 4\n"
            ))
        };
        let [gathered, strided] = ["zext %3", "mul %1, 100:i64"].map(of_index);
        assert!(gathered[0].starts_with("gather of i32 "), "{gathered:?}");
        assert!(strided.iter().any(|told| told.starts_with("strided load of i32 ")), "{strided:?}");
        let divided = told("  %9: i32 = udiv 7:i32, %3\n");
        assert!(divided[0].starts_with("udiv of i32 ") && divided[0].ends_with(" %"), "{divided:?}");
    }

    /// Of a kernel whose loop is b1, where each result takes a cycle.
    fn longest_chain(text: &str) -> f64 {
        let body = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let insts = vec![Price { latency: Cost::both(4.0), ..Price::default() }; body.inst_count()];
        let loops = crate::analysis::Loops::new(&crate::analysis::ControlFlow::new(&body)).unwrap();
        Chains::new(&body).longest(&body, &[Block(1)], &Leaps::new(&body, &loops), &insts).scalar
    }

    #[test]
    fn chains_go_through_memory() {
        let chain = |loaded: i64, stored: i64| {
            longest_chain(&format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {{\nb0:\n  %2: i64 = global_id 0\n  %3: i64 = mul %1, %2\n  jump b1(0:i64)\n\
                 b1(%4: i64):\n  %5: i64 = add %3, %4\n  %6: i64 = add %5, {}:i64\n  %7: ptr(global) = address %0 + %6*4 + 0\n  \
                 %8: f32 = load %7, align 4\n  %9: f32 = fmul %8, %8\n  %10: f32 = fadd %9, %8\n  \
                 %11: ptr(global) = address %0 + %5*4 + {stored}\n  store %11, %10, align 4\n  %12: i64 = add %4, 1:i64\n  \
                 %13: i1 = icmp ult %12, %1\n  branch %13, b1(%12), b2\nb2:\n  return\n}}",
                loaded as u64
            ))
        };
        // A load, a product and a sum, in each iteration or in each second one, or beside each other.
        assert_eq!(chain(-1, 0), 12.0);
        assert_eq!(chain(0, 8), 6.0);
        assert_eq!([chain(0, 0), chain(1, 0), chain(-1, 2)], [4.0; 3]);
    }

    #[test]
    fn chains_that_change_places_are_followed() {
        let text = |second: &str| {
            format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {{\nb0:\n  %2: i64 = global_id 0\n  jump b1(%2, %2)\n\
                 b1(%3: i64, %4: i64):\n  %5: i64 = add %4, 1:i64\n  %6: i64 = add %3, %1\n  %7: i64 = xor {second}, %1\n\
                 %8: i1 = icmp ult %5, %1\n  branch %8, b1(%5, %7), b2\nb2:\n  store %0, %3, align 8\n  return\n}}"
            )
        };
        let chain = |second: &str| longest_chain(&text(second));
        // Each is made of the other: two operations in two iterations, or three.
        assert_eq!(chain("%3"), 4.0);
        assert_eq!(chain("%6"), 6.0);
    }
}
