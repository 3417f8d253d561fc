//! The options of clBuildProgram, clCompileProgram and clLinkProgram (OpenCL 1.2, 5.6.4 and 5.6.5; cl_khr_spir).

use crate::error::{Result, Status};
use spirula_interface::options::{CompileOptions, MathOptions};
use std::path::PathBuf;

/// Whose options they are, and hence which error a bad one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Build,
    Compile,
    Link,
}

impl Step {
    /// The function that the application calls.
    pub(super) fn function(self) -> &'static str {
        match self {
            Step::Build => "clBuildProgram",
            Step::Compile => "clCompileProgram",
            Step::Link => "clLinkProgram",
        }
    }
}

/// What the compiler of OpenCL C must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Language {
    /// In clang's words.
    pub options: Vec<String>,
    /// `-I`, absolute.
    pub include_folders: Vec<PathBuf>,
}

/// Options, understood.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// What translation of a source must know.
    pub language: Language,
    /// `-x spir` or `-spir-std=`: for a binary, never a source.
    pub is_spir: bool,
    /// What code generation must know.
    pub compile: CompileOptions,
    /// `-create-library`.
    pub create_library: bool,
    /// Options of other runtimes, without an effect here.
    pub ignored: Vec<String>,
}

impl Options {
    /// For the log, what was ignored.
    pub fn remarks(&self) -> String {
        let remark = |option: &String| format!("remark: the option {option} has no effect on this device\n");
        self.ignored.iter().map(remark).collect()
    }
}

/// An option without a value, what it sets (unless it is about arithmetic), and who takes it beside clBuildProgram and clCompileProgram.
type Flag = (&'static str, fn(&mut Options), &'static [Taker]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taker {
    /// The compiler of OpenCL C, which knows it by the same name.
    Clang,
    /// clLinkProgram.
    Link,
}
use Taker::{Clang, Link};

/// What `-cl-std=` may say: CL_DEVICE_OPENCL_C_ALL_VERSIONS, and 2.0, of which not all is there yet.
const VERSIONS: [&str; 5] = ["CL1.0", "CL1.1", "CL1.2", "CL2.0", "CL3.0"];

const FLAGS: &[Flag] = &[
    ("-cl-single-precision-constant", |_| (), &[Clang]),
    ("-cl-denorms-are-zero", |_| (), &[Link]),
    ("-cl-fp32-correctly-rounded-divide-sqrt", |_| (), &[Clang]),
    ("-cl-opt-disable", |options| options.compile.optimization_disabled = true, &[]),
    ("-cl-strict-aliasing", |_| (), &[]),
    ("-cl-mad-enable", |_| (), &[Clang]),
    ("-cl-no-signed-zeros", |_| (), &[Clang, Link]),
    // clLinkProgram's section spells it so.
    ("-cl-no-signed-zeroes", |_| (), &[Link]),
    ("-cl-unsafe-math-optimizations", |_| (), &[Clang, Link]),
    ("-cl-finite-math-only", |_| (), &[Clang, Link]),
    ("-cl-fast-relaxed-math", |_| (), &[Clang, Link]),
    // Every translation has it.
    ("-cl-kernel-arg-info", |_| (), &[]),
    ("-cl-uniform-work-group-size", |options| options.compile.uniform_groups = true, &[]),
    ("-cl-no-subgroup-ifp", |_| (), &[Link]),
    ("-w", |_| (), &[Clang]),
    ("-Werror", |_| (), &[Clang]),
    ("-g", |options| options.compile.debug = true, &[]),
];

/// What applications pass for other runtimes, which a device without them may ignore. These ask for no other meaning of a
/// program, only for speed, reports or files.
const IGNORED: &[&str] =
    &["-O0", "-O1", "-O2", "-O3", "-Os", "-Ofast", "-O", "-save-temps", "-Wall", "-Wextra"];
/// How such options begin.
const IGNORED_BEGINNINGS: &[&str] =
    &["-cl-nv-", "-cl-amd-", "-cl-intel-", "-fno-bin-", "-fbin-", "-save-temps=", "-Wno-"];

fn is_ignored(word: &str) -> bool {
    IGNORED.contains(&word) || IGNORED_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
}

/// Reads the options of one call. CL_INVALID_BUILD_OPTIONS, _COMPILER_OPTIONS or _LINKER_OPTIONS for others than the
/// specification's.
pub(crate) fn parse(text: &str, step: Step) -> Result<Options> {
    let mut options = Options::default();
    let mut enabled = false;
    let mut words = split(text).into_iter();
    while let Some(word) = words.next() {
        let mut value = |joined: &str| match joined.is_empty() {
            true => words.next().ok_or_else(|| refuse(step, &format!("{word} without its value"))),
            false => Ok(joined.to_string()),
        };
        let known = |flag: &&Flag| flag.0 == word && (step != Step::Link || flag.2.contains(&Link));
        if let Some((_, set, takers)) = FLAGS.iter().find(known) {
            set(&mut options);
            options.compile.math |= MathOptions::named(&word);
            if takers.contains(&Clang) {
                options.language.options.push(word);
            }
        } else if is_ignored(&word) {
            options.ignored.push(word);
        } else if word == "-create-library" && step == Step::Link {
            options.create_library = true;
        } else if word == "-enable-link-options" && step == Step::Link {
            enabled = true;
        } else if let Some(version) = word.strip_prefix("-spir-std=") {
            options.compile.spir_std = Some(version.to_string());
            options.is_spir = true;
        } else if let Some(language) = word.strip_prefix("-x") {
            let language = value(language)?;
            if language != "spir" {
                return Err(refuse(step, &format!("-x {language}")));
            }
            options.is_spir = true;
        } else if step == Step::Link {
            return Err(refuse(step, &word));
        } else if let Some(definition) = word.strip_prefix("-D") {
            // Never two words: clang would take a second one that starts with @ for the name of a file.
            options.language.options.push(format!("-D{}", value(definition)?));
        } else if let Some(folder) = word.strip_prefix("-I") {
            let folder = value(folder)?;
            let absolute = std::path::absolute(&folder);
            let absolute = absolute.map_err(|error| refuse(step, &format!("-I {folder}: {error}")))?;
            options.language.include_folders.push(absolute);
        } else if word.strip_prefix("-cl-std=").is_some_and(|version| VERSIONS.contains(&version)) {
            options.language.options.push(word);
        } else {
            return Err(refuse(step, &word));
        }
    }
    if enabled && !options.create_library {
        return Err(refuse(step, "-enable-link-options without -create-library"));
    }
    Ok(options)
}

/// What else could have been meant, as the end of a sentence.
fn suggestion(step: Step, word: &str) -> String {
    /// More letters than that make it another word.
    const MOST: usize = 4;
    let flags = FLAGS.iter().filter(|flag| step != Step::Link || flag.2.contains(&Link)).map(|flag| flag.0);
    let versions = VERSIONS.iter().map(|version| format!("-cl-std={version}"));
    let links = ["-create-library", "-enable-link-options"];
    let others: Vec<String> = match step {
        Step::Link => links.map(String::from).into(),
        Step::Build | Step::Compile => versions.collect(),
    };
    let known = flags.map(String::from).chain(others);
    let near = known.map(|option| (distance(word, &option), option)).min();
    match near {
        Some((distance, option)) if distance <= MOST && 2 * distance < option.len() => {
            format!(" (did you mean {option}?)")
        }
        _ if step == Step::Link => String::new(),
        _ => " (the options of OpenCL 1.2, section 5.6.4, are known)".to_string(),
    }
}

/// Letters to insert, delete or change to make one word of the other (Levenshtein's distance).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &counterpart) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != counterpart);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

pub(crate) fn refuse(step: Step, word: &str) -> crate::Error {
    let status = match step {
        Step::Build => Status::InvalidBuildOptions,
        Step::Compile => Status::InvalidCompilerOptions,
        Step::Link => Status::InvalidLinkerOptions,
    };
    // A hostile option may be megabytes long.
    let shown: String = word.chars().take(200).collect();
    status.because(format!("unknown option: {shown}{}", suggestion(step, &shown)))
}

/// Words as a shell would see them: quotes keep spaces, a backslash keeps the next character. But what is defined as a
/// character of C's keeps its quotes: `-DCLASS='A'`.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if character == open => quote = None,
            ('\'', None)
                if let Some(word) = word.as_mut().filter(|word| word.ends_with('='))
                    && let Some(count) = character_constant(characters.as_str()) =>
            {
                word.push(character);
                word.extend(characters.by_ref().take(count));
            }
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, None) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// How many characters are left of one of C's constants behind its first quote, such as `A'` and `\n'`, if it is one.
fn character_constant(rest: &str) -> Option<usize> {
    let mut characters = rest.chars();
    let length = match characters.next()? {
        '\'' => return None,
        '\\' => characters.next().map(|_| 3)?,
        _ => 2,
    };
    (characters.next() == Some('\'')).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str, step: Step) -> Status {
        parse(text, step).unwrap_err().status
    }

    #[test]
    fn words_are_split_like_a_shells() {
        assert_eq!(split(" -D a='b c'  \"-I x\" d\\ e\t"), ["-D", "a=b c", "-I x", "d e"]);
        assert_eq!(split("  "), [""; 0]);
        let text = "-DCLASS='A' -D B='x y' 'C' -DE='' -D F='\\n' -DG='\\'' -I'.'";
        let words = ["-DCLASS='A'", "-D", "B=x y", "C", "-DE=", "-D", "F='\\n'", "-DG='\\''", "-I."];
        assert_eq!(split(text), words);
    }

    #[test]
    fn the_standard_options_are_understood() {
        let all = "-x spir -spir-std=1.2 -D A -DB=\"1 2\" -I dir -cl-std=CL1.2 -w -Werror -cl-mad-enable \
                   -cl-opt-disable -cl-kernel-arg-info -cl-single-precision-constant -cl-denorms-are-zero";
        let options = parse(all, Step::Build).unwrap().compile;
        assert_eq!(options.spir_std.as_deref(), Some("1.2"));
        assert!(options.optimization_disabled);
        assert_eq!(options.math, MathOptions::MAD_ENABLE | MathOptions::DENORMS_ARE_ZERO);
        let language = parse("-D A -DB=\"1 2\" -I /dir -cl-std=CL3.0 -w -g", Step::Compile).unwrap().language;
        assert_eq!(language.options, ["-DA", "-DB=1 2", "-cl-std=CL3.0", "-w"]);
        assert_eq!(language.include_folders, [PathBuf::from("/dir")]);
        let fast = parse("-cl-fast-relaxed-math", Step::Compile).unwrap().compile;
        assert_eq!(fast.math, MathOptions::FAST_RELAXED_MATH);
        assert!(parse("-create-library -enable-link-options", Step::Link).unwrap().create_library);
    }

    #[test]
    fn what_only_others_know_is_ignored_with_a_remark() {
        let options = parse("-cl-nv-verbose -O3 -cl-mad-enable", Step::Build).unwrap();
        assert_eq!(options.compile.math, MathOptions::MAD_ENABLE);
        assert_eq!(
            options.remarks(),
            "remark: the option -cl-nv-verbose has no effect on this device\n\
             remark: the option -O3 has no effect on this device\n"
        );
        assert_eq!(parse("", Step::Build).unwrap().remarks(), "");
    }

    #[test]
    fn what_could_have_been_meant_is_said() {
        let said = |text| parse(text, Step::Build).unwrap_err().detail;
        assert_eq!(said("-cl-made-enable"), "unknown option: -cl-made-enable (did you mean -cl-mad-enable?)");
        assert!(said("-cl-std=CL1.3").contains("did you mean -cl-std=CL1."));
        assert!(!said("-frobnicate").contains("did you mean"));
        assert!(said(&"x".repeat(1 << 20)).len() < 400);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn others_are_refused_by_the_steps_own_error() {
        assert_eq!(status("-cl-frobnicate", Step::Build), Status::InvalidBuildOptions);
        assert_eq!(status("nonsense", Step::Compile), Status::InvalidCompilerOptions);
        assert_eq!(status("-DA", Step::Link), Status::InvalidLinkerOptions);
        assert_eq!(status("-create-library", Step::Build), Status::InvalidBuildOptions);
        assert_eq!(status("-enable-link-options", Step::Link), Status::InvalidLinkerOptions);
        assert_eq!(status("-x cl", Step::Build), Status::InvalidBuildOptions);
        assert_eq!(status("-D", Step::Build), Status::InvalidBuildOptions);
        assert_eq!(status("-cl-std=CL9", Step::Build), Status::InvalidBuildOptions);
    }
}
