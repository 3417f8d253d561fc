//! Code of one kernel for launches as there were until now: what it is for, and what it leaves to others.

use super::*;

/// Rows that packs don't fill, and numbers that they don't expect, are the baseline's part of optimized code.
#[test]
fn what_packs_are_not_for_is_baseline_code() {
    let text = SCALE.replace(
        "  %place = getelementptr i32, ptr addrspace(1) %data, i64 %id\n",
        "  %narrow = trunc i64 %id to i32\n  %sum = add i32 %narrow, %factor\n  %within = and i32 %sum, 255\n
  %index = sext i32 %within to i64\n  %place = getelementptr i32, ptr addrspace(1) %data, i64 %index\n",
    );
    let mut inputs = host_inputs();
    for (rows, wants_filled) in [(64, true), (1, false)] {
        let groups = Groups::Usual(Usual { rows, disjoint: true, ..Usual::NOTHING });
        inputs.options.specialization = Some(Specialization { kernel: "scale".into(), groups, lanes: None });
        let program = built(&text, &inputs).unwrap();
        let code = &program.kernels[0].code;
        assert_eq!((code.wants_filled, program.objects.len()), (wants_filled, 1 + usize::from(wants_filled)));
        assert_eq!((code.is_for(&launch(4, 64)), code.is_for(&launch(128, 2))), (true, !wants_filled));
        let variables = std::sync::Arc::new(spirula_service::Variables::new(&program.data, None).unwrap());
        let kernels = spirula_service::load(&program, &variables).unwrap();
        for (factor, size) in [(7, 64), (7, 2), (-7, 16), ((1 << 30) + 3, 64), ((1 << 30) + 3, 1)] {
            let data: Vec<i32> = (0..256).collect();
            let expected: Vec<i32> = data.iter().map(|value: &i32| value.wrapping_mul(factor)).collect();
            let all = ran_in_groups(&kernels[0].info, kernels[0].entry, (data, factor), size);
            assert_eq!(all, expected, "{rows} {factor} {size}");
        }
    }
}

/// Code for launches of one size is for no other, and leaves buffers that overlap to the baseline as well.
#[test]
fn code_for_one_size_is_for_no_other() {
    let mut inputs = host_inputs();
    let size = Some([64, 1, 1]);
    let groups = Groups::Usual(Usual { rows: 64, disjoint: true, size, ..Usual::NOTHING });
    inputs.options.specialization = Some(Specialization { kernel: "scale".into(), groups, lanes: None });
    let program = built(SCALE, &inputs).unwrap();
    let code = &program.kernels[0].code;
    assert_eq!((code.local_size, code.sees_group), (size, true));
    assert!(code.wants_filled && code.is_for(&launch(4, 64)));
    assert!(!code.is_for(&launch(2, 128)) && !code.is_for(&launch(256, 1)));
    let end = Launch { enqueued_local_size: [128, 1, 1], ..launch(1, 64) };
    assert!(!code.is_for(&end), "a smaller group at the end of a range");
    let variables = std::sync::Arc::new(spirula_service::Variables::new(&program.data, None).unwrap());
    let kernels = spirula_service::load(&program, &variables).unwrap();
    for factor in [7, (1 << 30) + 3] {
        let data: Vec<i32> = (0..256).collect();
        let expected: Vec<i32> = data.iter().map(|value: &i32| value.wrapping_mul(factor)).collect();
        assert_eq!(ran_in_groups(&kernels[0].info, kernels[0].entry, (data, factor), 64), expected);
    }
}

/// Code for images of known formats is for no others, and has nothing of what those would need; also where a function of the program's own
/// reads them.
#[test]
fn code_for_known_formats_is_for_no_others() {
    let read = "call spir_func <4 x float> @_Z11read_imagef11ocl_image2d11ocl_samplerDv2_i(ptr addrspace(1) %image, i32 16, <2 x i32> %place)";
    let text = SCALE
        .replace("ptr addrspace(1) %data, i32 %factor", "ptr addrspace(1) %image, ptr addrspace(1) %data")
        .replace(
            "  %old = load i32, ptr addrspace(1) %place, align 4\n  %new = mul i32 %old, %factor\n",
            "  %x = trunc i64 %id to i32\n  %at = insertelement <2 x i32> zeroinitializer, i32 %x, i32 0
  %old = call spir_func float @own(ptr addrspace(1) %image, <2 x i32> %at)\n  %new = fptosi float %old to i32\n",
        )
        .replace(
            "declare spir_func i64",
            &format!(
                "declare spir_func <4 x float> @_Z11read_imagef11ocl_image2d11ocl_samplerDv2_i(ptr addrspace(1), i32, <2 x i32>)
define internal spir_func float @own(ptr addrspace(1) %image, <2 x i32> %place) {{
  %colour = {read}\n  %red = extractelement <4 x float> %colour, i32 0\n  ret float %red\n}}\ndeclare spir_func i64",
            ),
        )
        .replace("i32 1, i32 0}", "i32 1, i32 1}")
        .replace(r#"!"none", !"none""#, r#"!"read_only", !"none""#)
        .replace(r#"!"int*", !"int""#, r#"!"image2d_t", !"int*""#);
    let mut inputs = Inputs { tier: Tier::Optimized, ..host_inputs() };
    let mut code = |formats: ImageFormats| {
        let groups = Groups::Usual(Usual { rows: 64, disjoint: true, size: None, formats });
        let kernel = "scale".to_owned();
        inputs.options.specialization = Some(Specialization { kernel, groups, lanes: None });
        let program = built(&text, &inputs).unwrap();
        let size: usize = program.objects.iter().map(Vec::len).sum();
        (size, program.kernels[0].code.clone())
    };
    let formats = |ty| {
        let mut formats = ImageFormats::UNKNOWN;
        formats.set(0, 0x10B5, ty);
        formats
    };
    let [unknown, floats, bytes] = [ImageFormats::UNKNOWN, formats(0x10DE), formats(0x10D2)];
    let launched = |formats| Launch { formats, disjoint_buffers: 1, ..launch(4, 64) };
    let (all, any) = code(unknown);
    for (known, other) in [(floats, bytes), (bytes, floats)] {
        let (size, code) = code(known);
        assert!(2 * size < all, "{size} bytes of {all}");
        assert_eq!(code.formats, known);
        assert_eq!(
            [known, other, unknown].map(|formats| code.is_for(&launched(formats))),
            [true, false, false]
        );
        assert!(any.is_for(&launched(known)));
    }
}
