//! The conformance programs, and what the quick profile makes of each.

use clap::ValueEnum;

/// How thoroughly to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Khronos's wimpy mode, small images, little memory: minutes.
    Quick,
    /// All of it, as for a submission: days.
    Full,
}

/// A program.
pub struct Program {
    /// Its file's name.
    pub name: &'static str,
    quick: &'static [&'static str],
    full: &'static [&'static str],
    /// What sub-tests' names start with that only the full profile runs.
    only_full: &'static [&'static str],
    /// Its arguments name no sub-tests: it lists one, and passes without having tested anything if asked for it.
    whole: bool,
}

impl Program {
    const fn new(name: &'static str) -> Program {
        Program { name, quick: &[], full: &[], only_full: &[], whole: false }
    }

    /// Its arguments.
    pub fn arguments(&self, profile: Profile) -> &'static [&'static str] {
        match profile {
            Profile::Quick => self.quick,
            Profile::Full => self.full,
        }
    }

    /// The arguments that choose a sub-test.
    pub fn choice<'a>(&self, sub_test: &'a str) -> Option<&'a str> {
        (!self.whole).then_some(sub_test)
    }

    /// Whether a sub-test is part of the profile.
    pub fn includes(&self, profile: Profile, sub_test: &str) -> bool {
        profile == Profile::Full || !self.only_full.iter().any(|start| sub_test.starts_with(start))
    }
}

/// Every program that needs no other API (OpenGL, Direct3D, Vulkan).
pub const PROGRAMS: &[Program] = &[
    Program::new("test_computeinfo"),
    Program::new("test_basic"),
    Program::new("test_api"),
    Program::new("test_compiler"),
    Program::new("test_commonfns"),
    Program::new("test_geometrics"),
    Program::new("test_relationals"),
    Program { only_full: &["full_"], ..Program::new("test_thread_dimensions") },
    Program::new("test_multiples"),
    Program::new("test_atomics"),
    Program::new("test_profiling"),
    Program::new("test_events"),
    Program { quick: &["single", "5%"], full: &["single", "5", "60%"], ..Program::new("test_allocations") },
    Program::new("test_vectors"),
    Program::new("test_printf"),
    Program::new("test_device_partition"),
    Program::new("test_buffers"),
    Program::new("test_mem_host_flags"),
    Program::new("test_cl_get_info"),
    Program::new("test_kernel_image_methods"),
    Program { quick: &["small_images", "CL_FILTER_NEAREST"], ..Program::new("test_image_streams") },
    Program { quick: &["small_images"], ..Program::new("test_cl_copy_images") },
    Program { quick: &["small_images"], ..Program::new("test_cl_read_write_images") },
    Program { quick: &["small_images"], ..Program::new("test_cl_fill_images") },
    Program { quick: &["small_images"], ..Program::new("test_samplerless_reads") },
    Program::new("test_select"),
    Program { whole: true, ..Program::new("test_conversions") },
    Program::new("test_contractions"),
    Program::new("test_bruteforce"),
    Program { only_full: INTEGER_TYPES, ..Program::new("test_integer_ops") },
    Program::new("test_half"),
    Program::new("test_svm"),
    Program::new("test_c11_atomics"),
    Program::new("test_generic_address_space"),
    Program::new("test_non_uniform_work_group"),
    Program::new("test_pipes"),
    Program::new("test_device_execution"),
    Program::new("test_device_timer"),
    Program::new("test_workgroups"),
    Program::new("test_subgroups"),
    Program::new("test_spirv_new"),
    Program::new("test_spir"),
];

/// "integer_ops" tests each of these once more as "quick_" something.
const INTEGER_TYPES: &[&str] = &["char_", "uchar_", "short_", "ushort_", "int_", "uint_", "long_", "ulong_"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_no_names_is_given_none() {
        let choice = |name: &str| PROGRAMS.iter().find(|p| p.name == name).unwrap().choice("test");
        assert_eq!((choice("test_conversions"), choice("test_basic")), (None, Some("test")));
    }

    #[test]
    fn the_quick_profile_leaves_out_what_is_quick_elsewhere() {
        let program = |name: &str| PROGRAMS.iter().find(|p| p.name == name).unwrap();
        let integers = program("test_integer_ops");
        assert!(!integers.includes(Profile::Quick, "uchar_math"));
        assert!(integers.includes(Profile::Quick, "quick_uchar_math"));
        assert!(integers.includes(Profile::Quick, "integer_clz"));
        assert!(integers.includes(Profile::Full, "uchar_math"));
        assert_eq!(program("test_allocations").arguments(Profile::Full), ["single", "5", "60%"]);
    }
}
