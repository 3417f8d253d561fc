//! What may be written behind `spirula`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use spirula_interface::target;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  spirula info                             is everything there, and which settings are in force?
  spirula check kernels.bc                 is this SPIR, by its own rules?
  spirula compile kernels.cl -o kernels    a program for clCreateProgramWithBinary
  spirula show kernels.bc --stage asm      the instructions that run
  spirula explain kernels.bc               is it vectorized, and if not, why?
  spirula --json info | jq .device.name

It exits with 0, with 1 if something that was looked at is not as it should be, and with 2 if what was asked for can't be done.";

/// Says what Spirula, the OpenCL runtime for CPUs, is here, what it makes of programs, and how fast it is.
#[derive(Parser)]
#[command(name = "spirula", version = spirula_interface::identity::BUILD, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// What holds for all.
#[derive(Args)]
pub struct Common {
    /// Answer in JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// The library to ask, instead of the one that was installed with this command.
    #[arg(long, global = true, value_name = "FILE")]
    pub library: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum Command {
    /// The device, its settings, where compiler, clang and cache are, and what is missing.
    #[command(after_help = "Examples:\n  spirula info\n  SPIRULA_CPU=x86-64-v3 spirula info")]
    Info,
    /// What is against SPIR's rules in a binary; exits with 1 if it would be refused.
    #[command(after_help = "Examples:\n  spirula check kernels.bc\n  spirula check --json *.bc")]
    Check {
        /// SPIR or SPIR-V binaries.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Makes a program binary ahead of time, for this machine or for levels of processors, and for this version.
    #[command(
        after_help = "Examples:\n  spirula compile kernels.cl -o kernels.spirula --options '-cl-fast-relaxed-math -DN=4'\n  \
                            spirula compile main.bc library.spv -o all.spirula\n  \
                            spirula compile kernels.bc -o kernels.spirula --cpu x86-64-v2,x86-64-v3\n\n\
                            clCreateProgramWithBinary takes what it writes, and clBuildProgram then compiles nothing."
    )]
    Compile(Compile),
    /// What a stage of the compilation yields.
    #[command(after_help = "Examples:\n  spirula show kernels.bc --stage group --kernel saxpy\n  \
                            spirula show kernels.cl --stage asm | less")]
    Show(Show),
    /// What is vectorized, at which width, why not, and what would help.
    #[command(
        after_help = "Examples:\n  spirula explain kernels.bc\n  spirula explain kernels.cl --kernel saxpy --options -DN=4"
    )]
    Explain(Source),
    /// What was compiled before and is kept on disk.
    #[command(after_help = "Examples:\n  spirula cache list\n  spirula cache verify && echo sound")]
    Cache {
        #[command(subcommand)]
        action: Action,
    },
    /// Measures bandwidth, arithmetic, launches and builds, beside what the hardware can: a minute or two.
    #[command(after_help = "Examples:\n  spirula bench\n  spirula bench --seconds 1    a first impression")]
    Bench {
        /// How long each measurement takes at least.
        #[arg(long, default_value_t = 5.0, value_parser = positive)]
        seconds: f64,
    },
    /// Writes this command's page of the manual.
    #[command(hide = true)]
    Manual,
    /// Writes a shell's completions for this command.
    #[command(hide = true)]
    Completions {
        /// Which shell's.
        shell: Shell,
    },
}

#[derive(Args)]
pub struct Compile {
    /// OpenCL C, SPIR or SPIR-V; several are linked into one program.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the program goes.
    #[arg(short, long, value_name = "PROGRAM")]
    pub output: PathBuf,
    /// As for clBuildProgram.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub options: String,
    /// For processors of this level of x86-64 and higher ones, instead of this machine's; of several levels each processor takes its
    /// highest.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEVEL,...")]
    pub cpu: Vec<Level>,
}

/// A program to be looked at.
#[derive(Args)]
pub struct Source {
    /// OpenCL C, SPIR or SPIR-V.
    pub file: PathBuf,
    /// This kernel only.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// As for clBuildProgram.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub options: String,
}

#[derive(Args)]
pub struct Show {
    #[command(flatten)]
    pub source: Source,
    /// Which one.
    #[arg(long, value_enum)]
    pub stage: Stage,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Stage {
    /// The module as it was read, as LLVM IR.
    Spir,
    /// Linked with the builtins and simplified, as LLVM IR.
    Clean,
    /// The kernels in Kernel IR, for one work-item.
    Kir,
    /// The kernels in Kernel IR, for a range of work-groups: what the back end gets.
    Group,
    /// Instructions of the processor.
    Asm,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[allow(clippy::enum_variant_names)]
pub enum Level {
    #[value(name = "x86-64-v2")]
    V2,
    #[value(name = "x86-64-v3")]
    V3,
    #[value(name = "x86-64-v4")]
    V4,
}

impl Level {
    /// The same, to the rest of Spirula.
    pub fn known(self) -> target::Level {
        match self {
            Level::V2 => target::Level::V2,
            Level::V3 => target::Level::V3,
            Level::V4 => target::Level::V4,
        }
    }
}

#[derive(Clone, Copy, Subcommand)]
pub enum Action {
    /// What there is, the last used first.
    List,
    /// Removes all of it.
    Clear,
    /// Whether all of it is whole; what is damaged is removed. Exits with 1 if anything was.
    Verify,
}

fn positive(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number is wanted".to_owned())?;
    (seconds > 0.0 && seconds <= 60.0).then_some(seconds).ok_or_else(|| "between 0 and 60".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound_and_every_command_has_examples() {
        let command = Arguments::command();
        command.clone().debug_assert();
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:\n  "), "{}", command.get_name());
        }
    }
}
