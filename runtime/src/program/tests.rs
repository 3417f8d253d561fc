//! Tests of programs that need no compiler: what is recognised, refused, and reported.

use super::*;
use crate::kernel::tests::context;

#[test]
fn binaries_are_recognised_by_their_first_bytes() {
    let context = context();
    let make = |bytes: &[u8]| Program::with_binary(&context, context.device(), bytes);
    for bytes in [&b"BC\xC0\xDE1234"[..], b"\xDE\xC0\x17\x0B1234"] {
        let program = make(bytes).unwrap();
        assert_eq!(
            (program.binary_type(), program.build_status()),
            (BinaryType::Intermediate, BuildStatus::None)
        );
        assert_eq!(&*program.binary(), bytes);
        assert_eq!(program.kernel_names().unwrap_err().status, Status::InvalidProgramExecutable);
    }
    for bytes in [&b""[..], b"BC", b"\x7fELF", b"SPIRULA\x00 of old", b"SPIRULA\x01"] {
        assert_eq!(make(bytes).unwrap_err().status, Status::InvalidBinary);
    }
}

#[test]
fn sources_are_refused_with_a_log() {
    let context = context();
    let program = Program::with_source(&context, context.device(), "#error no".into());
    let status = |result: Result<()>| result.unwrap_err().status;
    assert_eq!(status(program.build("-cl-nonsense")), Status::InvalidBuildOptions);
    assert_eq!(status(program.build("-x spir")), Status::InvalidBuildOptions);
    assert_eq!(status(program.compile("-spir-std=1.2", &[])), Status::InvalidCompilerOptions);
    assert_eq!((program.build_status(), &*program.build_options()), (BuildStatus::Error, "-spir-std=1.2"));
    assert!(
        program.build_log().contains("-spir-std, for a program that is a source"),
        "{}",
        program.build_log()
    );
    let (built, log) = match spirula_service::find_clang() {
        Some(_) => (Status::BuildProgramFailure, "source.cl:1:2: error: no"),
        None => (Status::CompilerNotAvailable, "clang"),
    };
    assert_eq!(status(program.build("-w")), built);
    assert!(program.build_log().contains(log), "{}", program.build_log());
    assert_eq!((program.build_status(), program.binary_type()), (BuildStatus::Error, BinaryType::None));
    assert!(program.build_options() == "-w" && program.binary().is_empty());
}

#[test]
fn only_objects_and_libraries_are_linked() {
    let context = context();
    let link = |inputs: &[Arc<Program>]| {
        Program::link(&context, context.device(), "", inputs).map(|_| ()).unwrap_err().status
    };
    let spir = Program::with_binary(&context, context.device(), b"BC\xC0\xDE").unwrap();
    assert_eq!(link(&[]), Status::InvalidValue);
    assert_eq!(link(&[spir]), Status::InvalidOperation);
    let linked = Program::link(&context, context.device(), "-w", &[]).map(|_| ());
    assert_eq!(linked.unwrap_err().status, Status::InvalidLinkerOptions);
}

#[test]
fn a_library_comes_back_from_its_binary() {
    let context = context();
    let contents = Contents::new(BinaryType::Library, vec![b"BC\xC0\xDE".to_vec()], Default::default(), None);
    let program = Program::with_binary(&context, context.device(), &contents.encode().unwrap()).unwrap();
    assert_eq!(program.binary_type(), BinaryType::Library);
    assert_eq!(*program.binary(), *contents.encode().unwrap());
    assert_eq!(program.compile("", &[]).unwrap_err().status, Status::InvalidOperation);
}
