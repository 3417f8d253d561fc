//! What a translation depends on, and what it can't be said for.

use super::*;
use spirula_interface::translation::Clang;
use std::fs;
use tempfile::{TempDir, tempdir};

fn translation(source: &str, folders: &[&Path]) -> Translation {
    Translation {
        clang: Clang { program: "clang".into(), headers: "/".into() },
        addresses: Default::default(),
        source: source.into(),
        headers: vec![],
        include_folders: folders.iter().map(|folder| folder.to_path_buf()).collect(),
        directory: None,
        allowed: None,
        options: vec![],
    }
}

fn now(source: &str, folders: &[&Path]) -> Option<Vec<u8>> {
    Includes::now(&translation(source, folders), &[]).map(|includes| includes.to_bytes())
}

/// Two folders to look in, one after the other.
fn folders() -> (TempDir, [PathBuf; 2]) {
    let folder = tempdir().unwrap();
    let folders = ["first", "second"].map(|name| folder.path().join(name));
    folders.iter().for_each(|folder| fs::create_dir_all(folder.join("deep")).unwrap());
    (folder, folders)
}

#[test]
fn whatever_is_included_or_could_be_counts() {
    let (_all, [first, second]) = folders();
    let put = |name: &str, text: &str| fs::write(second.join(name), text).unwrap();
    let source = "#include <a.h>\n  # include \"deep/b.h\" // both\n";
    let state = || now(source, &[&first, &second]).unwrap();
    let mut states = vec![state()];
    put("a.h", "one");
    states.push(state());
    put("a.h", "two");
    states.push(state());
    put("deep/b.h", "#if 0\n#include \"c.h\"\n#endif");
    states.push(state());
    put("deep/c.h", "beside who includes it");
    states.push(state());
    put("c.h", "in a folder");
    states.push(state());
    // Found before the other.
    fs::write(first.join("a.h"), "two").unwrap();
    states.push(state());
    for (index, state) in states.iter().enumerate() {
        assert_eq!(states.iter().position(|other| other == state), Some(index), "{index}");
    }
    put("unrelated.h", "x");
    assert_eq!(Some(&state()), states.last());
    fs::remove_file(first.join("a.h")).unwrap();
    assert_eq!(state(), states[states.len() - 2], "as before");
}

#[test]
fn what_macros_named_counts_and_what_may_have_been_meant() {
    let (all, [first, second]) = folders();
    let source = "#define NAME <deep/a.h>\n#include NAME\n#include <b.h>";
    let put = |name: &str, text: &str| fs::write(second.join(name), text).unwrap();
    put("deep/a.h", "#include B");
    put("b.h", "one");
    let mut job = translation(source, &[&first, &second]);
    job.directory = Some(all.path().to_owned());
    let first_of_all = Includes::now(&job, &[]).unwrap();
    assert!(first_of_all.computed() && !now("#include <b.h>", &[&second]).unwrap().is_empty());
    let names = Includes::names(&job, &[second.join("deep/a.h"), second.join("b.h")]);
    let wanted = ["a.h", "b.h", "deep/a.h", "second/b.h", "second/deep/a.h"];
    assert!(wanted.iter().all(|name| names.contains(&name.into())), "{names:?}");
    let state = |names: &[PathBuf]| Includes::now(&job, names).unwrap().to_bytes();
    let mut states = vec![state(&[]), state(&names)];
    put("deep/a.h", "#include <c.h>");
    states.push(state(&names));
    put("c.h", "named plainly in what a macro named");
    states.push(state(&names));
    // What the macro or the file behind it may find first.
    fs::write(first.join("deep/a.h"), "").unwrap();
    states.push(state(&names));
    put("deep/b.h", "");
    states.push(state(&names));
    fs::write(all.path().join("b.h"), "").unwrap();
    states.push(state(&names));
    for (index, state) in states.iter().enumerate() {
        assert_eq!(states.iter().position(|other| other == state), Some(index), "{index}");
    }
}

#[test]
fn a_directory_makes_a_difference_by_what_is_in_it() {
    let (_all, [first, second]) = folders();
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let state = |directory: &Path| {
        let mut job = translation("#include \"a.h\"", &[&first, &second]);
        job.directory = Some(directory.to_owned());
        Includes::now(&job, &[]).unwrap().to_bytes()
    };
    fs::write(first.join("a.h"), "one").unwrap();
    assert_eq!(state(here.path()), state(there.path()));
    // The same places, in another order.
    fs::write(second.join("a.h"), "one").unwrap();
    assert_ne!(state(&second), state(here.path()));
    assert_ne!(state(&second), state(&first));
    fs::write(here.path().join("a.h"), "one").unwrap();
    assert_ne!(state(here.path()), state(there.path()));
}

#[test]
fn own_headers_include_files_too() {
    let (_all, [first, _]) = folders();
    let mut job = translation("#include \"own.h\"", &[&first]);
    job.headers = vec![("own.h".into(), "#include \"a.h\"".into())];
    let state = || Includes::now(&job, &[]).unwrap();
    let before = state();
    fs::write(first.join("a.h"), "x").unwrap();
    assert_ne!(state(), before);
    // Up from a place that is none.
    let above = Includes::now(&translation("#include \"../../../../../etc/a.h\"", &[]), &[]).unwrap();
    assert!(above.places.contains_key(Path::new("/etc/a.h")), "{above:?}");
}

#[test]
fn files_that_include_each_other_come_to_an_end() {
    let (_all, [first, _]) = folders();
    fs::write(first.join("a.h"), "#include \"b.h\"\n#include \"./a.h\"").unwrap();
    fs::write(first.join("b.h"), "#include \"a.h\"").unwrap();
    assert!(now("#include <a.h>", &[&first]).is_some());
    // Each time by another name.
    fs::write(first.join("b.h"), "#include \"deep/../b.h\"").unwrap();
    assert_eq!(now("#include <a.h>", &[&first]), None);
    for number in 0..3_000 {
        fs::write(first.join(format!("{number}.h")), format!("#include \"{}.h\"", number + 1)).unwrap();
    }
    assert!(now("#include <0.h>", &[&first]).is_some(), "and no stack overflows");
}

#[test]
fn only_what_cannot_change_otherwise_is_known() {
    let is_known = |text: &str| now(text, &[]).is_some();
    let known = [
        "kernel void k() {}",
        "#define A(x) \\\n x\n",
        "// what this file includes is important, and has no dependency\n",
        "/* # and\n include */",
        "#include <h>\r\n",
        "#incl\\\nude <h>",
        "%:include \"h\" /* why */",
        "// #include <main.h> // # is what they include",
        "#/**/include <h>",
        "# /*\n*/ include <h>",
        "/* __DATE__ \\u */ char *a = \"// /*\", b = '\"'; // \" /* '\n#include <h>",
        "#if 0\n it isn't // so\n#endif",
        "#include NAME",
        "#include NAME(include/h)",
    ];
    for text in known {
        assert!(is_known(text), "{text}");
    }
    let changing = [
        "#include_next <h>",
        "#includes <h>",
        "#include <a/*>\n#include <h>\n*/",
        "#if 0\n it isn't /*\n#endif\n#include <h> */",
        "char *a = R\"(\")\";",
        "int a = 1'0 /* '\n#include <h>\n */;",
        "/* #include <h>",
        "#inc??/\nlude <h>",
        "??=include <h>",
        "#\\u0069nclude <h>",
        "#import <h>",
        "#embed <h>",
        "#if __has_include(<h>)",
        "#if A /*\n*/ || __has_embed(<h>)",
        "#pragma GCC dependency \"h\"",
        "_Pragma(\"GCC dependency h\")",
        "char a[] = __TI\\\nME__;",
        "#include \"/proc/self/status\"",
        "#include \"/dev/null\"",
    ];
    for text in changing {
        assert!(!is_known(text), "{text}");
    }
    let mut job = translation("A", &[]);
    job.options = vec!["-DB=1".into()];
    assert!(Includes::now(&job, &[]).is_some());
    job.options.push("-DA=__has_include(<h>)".into());
    assert_eq!(Includes::now(&job, &[]), None);
    let mut job = translation("#include \"../h\"", &[]);
    job.allowed = Some(vec!["/tmp".into()]);
    assert_eq!(Includes::now(&job, &[]), None, "clang looks it up by name");
}
