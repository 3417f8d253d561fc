//! Vectors that neighbouring work-items load and store, whole or component by component, under masks, in loops and where branches meet.
//! Against the host, in packs of several widths and in both tiers. Skipped on a device without a compiler.

use crate::setup::{again, again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![vectors, vectors_in_lanes];

const ITEMS: usize = 96;

/// What is done with the vectors `v` and `w` of work-item i; what it does, of their elements and the work-item, to the first of them.
struct Body {
    text: &'static str,
    model: fn(&mut [i32], &[i32], usize),
}

fn each(v: &mut [i32], w: &[i32], f: impl Fn(i32, i32) -> i32) {
    v.iter_mut().zip(w).for_each(|(v, w)| *v = f(*v, *w));
}

const BODIES: [Body; 13] = [
    Body { text: "v = v * 3 + w;", model: |v, w, _| each(v, w, |v, w| v * 3 + w) },
    Body {
        text: "T s = v; for (int k = 0; k < 5; k++) s = s * 3 + w - k; v = s;",
        model: |v, w, _| each(v, w, |v, w| (0..5).fold(v, |s, k| s * 3 + w - k)),
    },
    Body {
        text: "if (i & 1) v = v + w; else v = v * 5;",
        model: |v, w, i| each(v, w, |v, w| if i & 1 == 1 { v + w } else { v * 5 }),
    },
    Body {
        text: "if (i % 3 == 0) { v ^= w; if (w.s0 & 1) v = -v; }",
        model: |v, w, i| {
            if i.is_multiple_of(3) {
                let negative = w[0] & 1 == 1;
                each(v, w, |v, w| if negative { -(v ^ w) } else { v ^ w });
            }
        },
    },
    Body {
        text: "v = v.REVERSED * 2 + w;",
        model: |v, w, _| {
            v.reverse();
            each(v, w, |v, w| v * 2 + w);
        },
    },
    Body {
        text: "v.s1 = 7; v += w;",
        model: |v, w, _| {
            v[1] = 7;
            each(v, w, |v, w| v + w);
        },
    },
    Body {
        text: "v.s1 = i; v += w;",
        model: |v, w, i| {
            v[1] = i as i32;
            each(v, w, |v, w| v + w);
        },
    },
    Body {
        text: "v = v * (T)(v.s1) + w;",
        model: |v, w, _| {
            let factor = v[1];
            each(v, w, |v, w| v * factor + w);
        },
    },
    Body {
        text: "for (int k = 0; k < i % 5; k++) v = v * 3 + w;",
        model: |v, w, i| (0..i % 5).for_each(|_| each(v, w, |v, w| v * 3 + w)),
    },
    Body { text: "v = select(w, v, v > w);", model: |v, w, _| each(v, w, i32::max) },
    Body {
        text: "v = CONVERT_INT(CONVERT_CHAR(v)) + w;",
        model: |v, w, _| each(v, w, |v, w| i32::from(v as i8) + w),
    },
    Body {
        text: "v = v + (T)(w.s0 + w.s1) - (T)(i);",
        model: |v, w, i| {
            let sum = w[0] + w[1] - i as i32;
            each(v, w, |v, _| v + sum);
        },
    },
    Body {
        text: "T s = v; for (int k = 0; k < 3; k++) { if (w.s0 & (1 << k)) s = s + w; else s.s0 += k; } v = s;",
        model: |v, w, _| {
            for k in 0..3 {
                if w[0] & (1 << k) == 0 {
                    v[0] += k;
                } else {
                    each(v, w, |v, w| v + w);
                }
            }
        },
    },
];

fn vectors() -> Outcome {
    let setup = setup()?;
    for (body, (count, index)) in BODIES.iter().flat_map(|body| {
        [(2, "int"), (4, "int"), (4, "uint"), (8, "int"), (16, "uint")].map(|way| (body, way))
    }) {
        let reversed: String = (0..count).rev().map(|c| format!("{c:x}")).collect();
        let text = body.text.replace("REVERSED", &format!("s{reversed}"));
        let text = text.replace("CONVERT_INT", &format!("convert_int{count}"));
        let text = text.replace("CONVERT_CHAR", &format!("convert_char{count}"));
        let source = format!(
            "typedef int{count} T; kernel void k(global const T *a, global const T *b, global T *out, uint from)
            {{ {index} i = get_global_id(0) + from; T v = a[i], w = b[i]; {text} out[i] = v; }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
        let numbers = |seed: u32| -> Vec<i32> {
            (0..(ITEMS * count) as u32).map(|n| (n.wrapping_mul(0x9E37_79B9) ^ seed) as i32 >> 17).collect()
        };
        let (first, second) = (numbers(0), numbers(0x5bd1_e995));
        let [a, b, output] = [&first, &second, &first].map(|given| Buffer::copy_of(&setup.context, given));
        let (a, b, output) = (a?, b?, output?);
        for (number, buffer) in [&a, &b, &output].into_iter().enumerate() {
            kernel.set_object(number as u32, Some(buffer))?;
        }
        kernel.set(3, 0_u32)?;
        setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[32]))?;
        let mut found = vec![0; ITEMS * count];
        setup.queue.read(&output, &mut found)?;
        let mut expected = first;
        for (i, (v, w)) in expected.chunks_mut(count).zip(second.chunks(count)).enumerate() {
            (body.model)(v, w, i);
        }
        let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
        assert_eq!(differing, None, "`{}` of int{count} by {index}", body.text);
    }
    Ok(())
}

fn vectors_in_lanes() -> Outcome {
    for width in ["1", "4", "8", "16"] {
        again_with("vectors::vectors", &[("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", width)]);
    }
    again("vectors::vectors", "SPIRULA_TIER", "optimized");
    Ok(())
}
