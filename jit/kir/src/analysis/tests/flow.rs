//! Loops, the order of blocks, and masks.

use super::{Analysed, ControlFlow, Loops, Node, linear_order};
use crate::{Function, parse};

/// "b0 b1 (b2 b3) b4": loops in brackets.
fn order(function: &Function) -> String {
    let flow = ControlFlow::new(function);
    let loops = Loops::new(&flow).expect("every cycle has one entry");
    let mut words = Vec::new();
    for node in linear_order(function, &flow, &loops) {
        match node {
            Node::Block(block) => {
                let opens = loops.innermost(block).filter(|&id| loops.get(id).header == block);
                words.push(format!("{}{block}", if opens.is_some() { "(" } else { "" }));
            }
            Node::Loop(_) => words.last_mut().expect("a loop has blocks").push(')'),
        }
    }
    words.join(" ")
}

/// Blocks from edges such as "0:1 2, 1:3": without a target a block returns.
fn graph(edges: &str) -> Function {
    let mut text = String::from("kernel \"k\"(%0: i1 @ 0) {\n");
    for (n, block) in edges.split(", ").enumerate() {
        let (name, targets) = block.split_once(':').expect("block:targets");
        assert_eq!(name, n.to_string());
        let targets: Vec<String> = targets.split_whitespace().map(|t| format!("b{t}")).collect();
        let end = match targets.as_slice() {
            [] => "return".into(),
            [to] => format!("jump {to}"),
            [then, otherwise] => format!("branch %0, {then}, {otherwise}"),
            _ => panic!("at most two targets"),
        };
        text += &format!("b{n}:\n  {end}\n");
    }
    parse(&(text + "}")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn loops_stay_together() {
    // The way out of the loop is the branch's first target; still the loop's blocks come first.
    assert_eq!(order(&graph("0:1, 1:4 2, 2:3 4, 3:1, 4:")), "b0 (b1 b2 b3) b4");
    // A loop in a loop, with a way out of both.
    assert_eq!(order(&graph("0:1, 1:2, 2:3 5, 3:2 4, 4:1 5, 5:")), "b0 (b1 (b2 b3) b4) b5");
    // A block that is its own loop.
    assert_eq!(order(&graph("0:1, 1:1 2, 2:")), "b0 (b1) b2");
    // Two ways back to one header are one loop.
    assert_eq!(order(&graph("0:1, 1:2 3, 2:1, 3:1 4, 4:")), "b0 (b1 b2 b3) b4");
}

#[test]
fn blocks_come_behind_all_that_lead_to_them() {
    let text = order(&graph("0:1 2, 1:3 4, 2:4, 3:5, 4:5, 5:"));
    let place = |block: &str| text.find(block).unwrap();
    for (before, after) in [("b1", "b3"), ("b1", "b4"), ("b2", "b4"), ("b3", "b5"), ("b4", "b5")] {
        assert!(place(before) < place(after), "{text}");
    }
}

#[test]
fn a_cycle_with_two_entries_is_no_loop() {
    let function = graph("0:1 2, 1:2, 2:1");
    assert!(Loops::new(&ControlFlow::new(&function)).is_none());
}

/// `condition` decides at the end of b0 and b4.
fn masks(condition: &str) -> String {
    let text = format!(
        "kernel \"k\"(%0: i64 @ 0) {{
b0:
  %1: i64 = global_id 0
  %2: i1 = icmp ult {condition}
  branch %2, b1, b2
b1:
  jump b3
b2:
  jump b3
b3:
  jump b4(0:i64)
b4(%3: i64):
  %4: i64 = add %3, 1:i64
  %5: i1 = icmp ult %4, %0
  branch %5, b5, b6
b5:
  jump b4(%4)
b6:
  return
}}"
    );
    Analysed::new(&text, &[]).masks()
}

#[test]
fn where_ways_meet_again_all_lanes_are_back() {
    // The loop is uniform; its body has a mask of its own, which is full whenever it runs.
    assert_eq!(masks("%1, 7:i64"), "full b1 b2 full full b5 full");
}

#[test]
fn a_divergent_loop_has_a_mask_and_what_follows_it_has_that_before_it() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  %2: i1 = icmp ult %1, 100:i64
  branch %2, b1, b5
b1:
  jump b2(0:i64)
b2(%3: i64):
  %4: i64 = add %3, 1:i64
  %5: i1 = icmp ult %4, %1
  branch %5, b3, b4
b3:
  jump b2(%4)
b4:
  jump b5
b5:
  return
}";
    let analysed = Analysed::new(text, &[]);
    assert_eq!(analysed.divergent_loops(), [2]);
    assert_eq!(analysed.masks(), "full b1 b2 b3 b1 full");
}

/// Lanes that return do not come to where the others meet.
#[test]
fn behind_an_early_return_lanes_are_missing() {
    let text = "kernel \"k\"(%0: i64 @ 0) {
b0:
  %1: i64 = global_id 0
  %2: i1 = icmp ult %1, 100:i64
  branch %2, b1, b2
b1:
  return
b2:
  %3: i1 = icmp ult %1, 50:i64
  branch %3, b3, b4
b3:
  jump b4
b4:
  return
}";
    assert_eq!(Analysed::new(text, &[]).masks(), "full b1 b2 b3 b2");
}
