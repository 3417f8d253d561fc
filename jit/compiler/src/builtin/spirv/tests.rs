use super::*;
use crate::builtin::{Resolution, resolve};
use rspirv::grammar::{OperandKind, ext_inst_table};
use spirula_interface::options::MathOptions;

const V4: &str = "<4 x float>";
const I4: &str = "<4 x i32>";
const GLOBAL: &str = "ptr addrspace(1)";

/// Types of parameters, and of the result.
type Form<'a> = (&'a [&'a str], &'a str);

/// Forms that instructions of OpenCL.std have, one for each that there is.
const FORMS: [Form; 38] = [
    (&["float"], "float"),
    (&["float", "float"], "float"),
    (&["float", "float", "float"], "float"),
    (&["i32"], "i32"),
    (&["i32", "i32"], "i32"),
    (&["i32", "i32", "i32"], "i32"),
    (&["float", "i32"], "float"),
    (&["float"], "i32"),
    (&["i32"], "float"),
    (&["float", "ptr"], "float"),
    (&["float", "float", "ptr"], "float"),
    (&[V4], "float"),
    (&[V4, V4], "float"),
    (&[V4, V4], V4),
    (&["i16", "i16"], "i32"),
    (&[I4, I4], I4),
    (&[I4, I4, I4], I4),
    (&["i64", GLOBAL, "i32"], I4),
    (&["i64", GLOBAL], "float"),
    (&["i64", GLOBAL, "i32"], V4),
    (&[I4, "i64", GLOBAL], "void"),
    (&["float", "i64", GLOBAL], "void"),
    (&[V4, "i64", GLOBAL], "void"),
    (&["float", "i64", GLOBAL, "i32"], "void"),
    (&[V4, "i64", GLOBAL, "i32"], "void"),
    (&[GLOBAL, "i64"], "void"),
    (&["i64"], "i64"),
    (&["double"], "double"),
    (&["half"], "half"),
    (&[V4], V4),
    (&[I4], I4),
    (&["double", "double"], "double"),
    (&["half", "half"], "half"),
    (&["i8", "i8"], "i8"),
    (&["i64", "i64"], "i64"),
    (&["i64", "i64", "i64"], "i64"),
    (&["<3 x float>", "<3 x float>"], "<3 x float>"),
    (&["float", "ptr addrspace(4)"], "float"),
];

fn mangled(ty: &str) -> Mangled {
    match Ir::parse(ty) {
        Some(Ir { lane: Lane::Pointer(space), .. }) => {
            Mangled::Pointer(space.into(), Box::new(Mangled::Number('i', 32, 1)))
        }
        Some(Ir { lane: lane @ Lane::Int(bits), width }) => {
            let kind = if lane == Lane::Int(1) { 'b' } else { 'i' };
            Mangled::Number(kind, bits, width.into())
        }
        Some(Ir { lane, width }) => Mangled::Number('f', lane.bits(), width.into()),
        None => Mangled::Named("__spirv_SampledImage__void_1_0_0_0_0_0_0".into()),
    }
}

/// The definition, if all that it calls is there.
fn define(name: &str, (parameters, result): Form) -> Option<Definition> {
    let types: Vec<Mangled> = parameters.iter().map(|ty| mangled(ty)).collect();
    define_as(&symbol(name, &types), (parameters, result))
}

fn define_as(symbol: &str, (parameters, result): Form) -> Option<Definition> {
    let params = parameters.iter().map(|ty| ty.to_string()).collect();
    let definition = find(symbol, &Signature { ret: result.into(), params })?;
    definition.must_be_valid();
    definition.declarations.iter().all(|line| is_there(line)).then_some(definition)
}

/// Whether what a `declare` line names is a builtin, an intrinsic, or a primitive.
fn is_there(line: &str) -> bool {
    let Some((ret, rest)) = line.strip_prefix("declare ").and_then(|line| line.split_once(" @")) else {
        return true;
    };
    let Some((name, parameters)) = rest.split_once('(') else { return false };
    if name.starts_with("llvm.") || name.starts_with("spirula") {
        return true;
    }
    let end = parameters.rfind(')').unwrap_or(0);
    let params = parameters[..end].split(", ").filter(|ty| !ty.is_empty()).map(str::to_string).collect();
    let declared = Signature { ret: ret.into(), params };
    matches!(resolve(name, &declared, MathOptions::NONE, Default::default()), Resolution::Definition(_))
}

#[test]
fn every_instruction_of_opencl_std_is_there() {
    let table = ext_inst_table("OpenCL.std").expect("the grammar has it");
    let mut count = 0;
    for instruction in table.iter().filter(|instruction| instruction.opname != "printf") {
        let kinds = instruction.operands.iter().map(|operand| operand.kind);
        let arity = kinds.filter(|kind| *kind != OperandKind::IdResult).count();
        let known = |form: &&Form| {
            form.0.len() == arity && define(&format!("ocl_{}", instruction.opname), **form).is_some()
        };
        assert!(FORMS.iter().find(known).is_some(), "{} of {arity} operands", instruction.opname);
        count += 1;
    }
    assert!(count > 150, "{count}");
}

#[test]
fn core_instructions_are_there_with_their_types() {
    let fetches = ["IAdd", "ISub", "SMin", "UMin", "SMax", "UMax", "And", "Or", "Xor", "Exchange"];
    let places = [GLOBAL, "ptr addrspace(3)", "ptr addrspace(4)", "ptr"];
    for place in places {
        for op in fetches {
            for ty in ["i32", "i64"] {
                assert!(
                    define(&format!("Atomic{op}"), (&[place, "i32", "i32", ty], ty)).is_some(),
                    "{op} {place}"
                );
            }
        }
        for op in ["AtomicFAddEXT", "AtomicFMinEXT", "AtomicFMaxEXT"] {
            for ty in ["float", "double"] {
                assert!(define(op, (&[place, "i32", "i32", ty], ty)).is_some(), "{op} {place}");
            }
        }
        for op in ["AtomicIIncrement", "AtomicIDecrement", "AtomicLoad"] {
            assert!(define(op, (&[place, "i32", "i32"], "i32")).is_some(), "{op}");
        }
        assert!(define("AtomicStore", (&[place, "i32", "i32", "float"], "void")).is_some());
        assert!(define("AtomicFlagTestAndSet", (&[place, "i32", "i32"], "i1")).is_some());
        assert!(define("AtomicFlagClear", (&[place, "i32", "i32"], "void")).is_some());
        for op in ["AtomicCompareExchange", "AtomicCompareExchangeWeak"] {
            let form: Form = (&[place, "i32", "i32", "i32", "i64", "i64"], "i64");
            assert!(define(op, form).is_some(), "{op}");
        }
    }
    let forms: [(&str, Form); 37] = [
        ("ControlBarrier", (&["i32", "i32", "i32"], "void")),
        ("MemoryBarrier", (&["i32", "i32"], "void")),
        ("GroupAll", (&["i32", "i1"], "i1")),
        ("GroupAny", (&["i32", "i1"], "i1")),
        ("GroupBroadcast", (&["i32", "float", "<2 x i64>"], "float")),
        ("GroupIAdd", (&["i32", "i32", "i64"], "i64")),
        ("GroupFMax", (&["i32", "i32", "double"], "double")),
        ("GroupSMin", (&["i32", "i32", "i8"], "i8")),
        ("GroupUMin", (&["i32", "i32", "i32"], "i32")),
        ("GroupNonUniformElect", (&["i32"], "i1")),
        ("GroupNonUniformAll", (&["i32", "i1"], "i1")),
        ("GroupNonUniformAllEqual", (&["i32", "float"], "i1")),
        ("GroupNonUniformBroadcast", (&["i32", V4, "i32"], V4)),
        ("GroupNonUniformBroadcastFirst", (&["i32", "i32"], "i32")),
        ("GroupNonUniformBallot", (&["i32", "i1"], I4)),
        ("GroupNonUniformInverseBallot", (&["i32", I4], "i1")),
        ("GroupNonUniformBallotBitExtract", (&["i32", I4, "i32"], "i1")),
        ("GroupNonUniformBallotBitCount", (&["i32", "i32", I4], "i32")),
        ("GroupNonUniformBallotFindLSB", (&["i32", I4], "i32")),
        ("GroupNonUniformShuffleXor", (&["i32", "i8", "i32"], "i8")),
        ("GroupNonUniformRotateKHR", (&["i32", "i32", "i32"], "i32")),
        ("GroupNonUniformFAdd", (&["i32", "i32", "float"], "float")),
        ("GroupNonUniformFAdd", (&["i32", "i32", "float", "i32"], "float")),
        ("GroupNonUniformLogicalXor", (&["i32", "i32", "i1"], "i1")),
        ("GroupAsyncCopy", (&["i32", "ptr addrspace(3)", GLOBAL, "i64", "i64", "ptr"], "ptr")),
        ("GroupWaitEvents", (&["i32", "i32", "ptr"], "void")),
        ("IsNan", (&[V4], "<4 x i1>")),
        ("SignBitSet", (&["double"], "i1")),
        ("Any", (&["<4 x i1>"], "i1")),
        ("Dot", (&[V4, V4], "float")),
        ("FMod", (&[V4, V4], V4)),
        ("BitReverse", (&[I4], I4)),
        ("BitFieldSExtract", (&["i32", "i32", "i32"], "i32")),
        ("SDotKHR", (&["i32", "i32"], "i32")),
        ("UDotAccSat", (&["<4 x i8>", "<4 x i8>", "i32"], "i32")),
        ("GenericCastToPtrExplicit_ToLocal", (&["ptr addrspace(4)"], "ptr addrspace(3)")),
        ("GenericPtrMemSemantics", (&["ptr addrspace(4)"], "i32")),
    ];
    for (name, form) in forms {
        assert!(define(name, form).is_some(), "{name}");
    }
    for (name, form) in [
        ("GroupIMulKHR", (&["i32", "i32", "i32"][..], "i32")),
        ("GroupFMulKHR", (&["i32", "i32", "half"], "half")),
        ("GroupBitwiseXorKHR", (&["i32", "i32", "i16"], "i16")),
        ("GroupLogicalOrKHR", (&["i32", "i32", "i1"], "i1")),
        ("SubgroupShuffleINTEL", (&[V4, "i32"], V4)),
        ("SubgroupShuffleDownINTEL", (&["i64", "i64", "i32"], "i64")),
        ("SubgroupShuffleUpINTEL", (&["half", "half", "i32"], "half")),
        ("SubgroupShuffleXorINTEL", (&["i8", "i32"], "i8")),
        ("SubgroupBlockReadINTEL", (&[GLOBAL], I4)),
        ("SubgroupBlockReadINTEL", (&["ptr addrspace(3)"], "half")),
        ("SubgroupBlockWriteINTEL", (&[GLOBAL, "<8 x i64>"], "void")),
        ("SubgroupImageBlockReadINTEL", (&[GLOBAL, "<2 x i32>"], "<16 x i8>")),
        ("SubgroupImageBlockWriteINTEL", (&[GLOBAL, "<2 x i32>", V4], "void")),
        ("ConvertFToU_Ruchar_sat_rte", (&["float"], "i8")),
        ("ConvertSToF_Rdouble2_rtp", (&["<2 x i64>"], "<2 x double>")),
        ("SatConvertUToS_Rchar", (&["i32"], "i8")),
        ("ReadPipe", (&[GLOBAL, "ptr addrspace(4)", "i32", "i32"], "i32")),
        ("ReservedWritePipe", (&[GLOBAL, "ptr", "i32", "ptr", "i32", "i32"], "i32")),
        ("GroupReserveReadPipePackets", (&["i32", GLOBAL, "i32", "i32", "i32"], "ptr")),
        ("IsValidReserveId", (&["ptr"], "i1")),
        ("GetDefaultQueue", (&[], "ptr")),
        ("EnqueueMarker", (&["ptr", "i32", "ptr", "ptr"], "i32")),
        ("SetUserEventStatus", (&["ptr", "i32"], "void")),
    ] {
        assert!(define(name, form).is_some(), "{name}");
    }
}

#[test]
fn images_are_told_by_their_types_names() {
    for (name, tail, form) in [
        ("SampledImage", "15__spirv_Sampler", (&[GLOBAL, "i32"][..], SAMPLED_IMAGE)),
        ("ImageRead_Rfloat4", "Dv2_i", (&[GLOBAL, "<2 x i32>"], V4)),
        ("ImageRead_Rint4", "Dv2_i", (&[GLOBAL, "<2 x i32>"], I4)),
        ("ImageWrite", "Dv2_iDv4_f", (&[GLOBAL, "<2 x i32>", V4], "void")),
        ("ImageWrite", "Dv2_iDv4_i", (&[GLOBAL, "<2 x i32>", I4], "void")),
        ("ImageQuerySizeLod_Rint2", "i", (&[GLOBAL, "i32"], "<2 x i32>")),
        ("ImageQueryFormat_Rint", "", (&[GLOBAL], "i32")),
        ("ImageQueryOrder_Rint", "", (&[GLOBAL], "i32")),
    ] {
        for (shape, place) in [("1_0_0", 2), ("2_0_0", 4), ("1_0_1", 4), ("0_0_0", 1)] {
            if place != 2 && !tail.is_empty() && !tail.ends_with("Sampler") && tail != "i" {
                continue;
            }
            let ty = format!("__spirv_Image__void_{shape}_0_0_0_0");
            let whole = format!("__spirv_{name}");
            let symbol = format!("_Z{}{whole}{}{ty}{tail}", whole.len(), ty.len());
            assert!(define_as(&symbol, form).is_some(), "{symbol}");
        }
    }
    let sampled =
        define("ImageSampleExplicitLod_Rfloat4", (&[SAMPLED_IMAGE, "<2 x float>", "i32", "float"], V4));
    let text = sampled.expect("a sampled image is there").ir;
    assert!(text.contains("extractvalue { ptr addrspace(1), i32 } %a0, 1"), "{text}");
}

#[test]
fn translators_forms_are_known() {
    let image = "PU3AS133__spirv_Image__void_1_0_0_0_0_0_0";
    let forms: [(String, Form); 5] = [
        ("_Z24__spirv_ocl_vloadn_Rint4lPU3AS1ii".into(), (&["i64", GLOBAL, "i32"], I4)),
        (format!("_Z20__spirv_SampledImage{image}PU3AS215__spirv_Sampler"), (&[GLOBAL, "ptr addrspace(2)"], GLOBAL)),
        (
            "_Z38__spirv_ImageSampleExplicitLod_Rfloat4PU3AS140__spirv_SampledImage__void_1_0_0_0_0_0_0Dv2_iif".into(),
            (&[GLOBAL, "<2 x i32>", "i32", "float"], V4),
        ),
        (format!("_Z25__spirv_ImageRead_Rfloat4{image}Dv2_i"), (&[GLOBAL, "<2 x i32>"], V4)),
        ("_Z27__spirv_SConvert_Rshort_sati".into(), (&["i32"], "i16")),
    ];
    for (symbol, form) in forms {
        assert!(define_as(&symbol, form).is_some(), "{symbol}");
    }
}

#[test]
fn ranges_are_of_numbers_or_arrays() {
    for (symbol, ty) in
        [("_Z23__spirv_BuildNDRange_1Dlll", "i64"), ("_Z23__spirv_BuildNDRange_3DPlS_S_", "[3 x i64]")]
    {
        assert!(define_as(symbol, (&["ptr", ty, ty, ty], "void")).is_some(), "{symbol}");
        assert!(define_as(symbol, (&["ptr", ty, ty, "i32"], "void")).is_none(), "{symbol}");
    }
}

#[test]
fn variables_have_their_components() {
    for name in ["GlobalInvocationId", "WorkgroupSize", "NumWorkgroups"] {
        assert!(define(&format!("BuiltIn{name}"), (&["i32"], "i64")).is_some(), "{name}");
        assert_eq!(components(name), 3);
    }
    for (name, ty) in [("GlobalLinearId", "i64"), ("WorkDim", "i32"), ("SubgroupId", "i32")] {
        assert!(define(&format!("BuiltIn{name}"), (&[], ty)).is_some(), "{name}");
    }
    assert!(define("BuiltInSubgroupEqMask", (&["i32"], "i32")).is_some());
    assert_eq!(components("FragCoord"), 0);
}

#[test]
fn what_there_is_not_is_not_defined() {
    for (name, form) in [
        ("ocl_nothing", (&["float"][..], "float")),
        ("AtomicIAdd", (&[GLOBAL, "i32", "i32", "i8"], "i8")),
        ("ImageQueryLevels", (&[GLOBAL], "i32")),
        ("GroupBitwiseAndKHR", (&["i32", "i32", "float"], "float")),
        ("SubgroupBlockPrefetchINTEL", (&[GLOBAL, "i32"], "void")),
        ("SubgroupBlockReadINTEL", (&[GLOBAL], GLOBAL)),
        ("SubgroupBlockReadINTEL", (&[GLOBAL], "i1")),
        ("SubgroupBlockWriteINTEL", (&[GLOBAL], "void")),
        ("SubgroupBlockWriteINTEL", (&["i32", "i32"], "void")),
    ] {
        assert!(define(name, form).is_none(), "{name}");
    }
    let signature = Signature { ret: "void".into(), params: Vec::new() };
    assert!(find("_Z3barv", &signature).is_none());
    assert!(is_barrier("_Z22__spirv_ControlBarrierjjj") && !is_barrier("_Z17__spirv_ocl_fabsf"));
}
