"""The binaries of packages: Rust's, LLVM's and clang's code, linked by Zig against glibc 2.28, so that they run with it and all later ones.

Rust's standard library needs 2.17. LLVM's and libstdc++'s archives come from Debian, compiled for its own glibc; of what is newer
than 2.28 they use four functions, which glibc-2.28.c has. Zig brings stand-ins of glibc's libraries as they were in 2.28: what
isn't in them is an error of the linker, and not of a user's machine.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from common import GLIBC, HERE, MADE, ROOT, TARGET, TRIPLE, WORK, Failure, rows, run, show, source

# The linker, its glue for cargo, and what checks a wheel's tag, all from PyPI.
TOOLS = ["ziglang==0.17.1", "cargo-zigbuild==0.24.0", "auditwheel==6.8.2"]
# What is built, and what it yields is in files.txt.
CRATES = ["spirula-icd", "spirula-compiler", "spirula-command"]
# Archives that an OpenCL front end has no use for, whose parts need others still.
UNUSED = re.compile(r"libclang(d|Tidy|Daemon|Doc|Interpreter|StaticAnalyzer|Tooling|Handle|Format)|Polly|ExecutionEngine|Orc|JIT|LLVMInterpreter")


def tools():
    """The folder of their programs, in an environment of their own."""
    place = WORK / "tools"
    done = place / "complete"
    if not done.exists() or done.read_text() != " ".join(TOOLS):
        shutil.rmtree(place, ignore_errors=True)
        run(sys.executable, "-m", "venv", place)
        run(place / "bin/pip", "install", "--quiet", *TOOLS)
        done.write_text(" ".join(TOOLS))
    return place / "bin"


def zig(*arguments):
    """Zig as a C compiler for the old glibc."""
    return run(tools() / "python", "-m", "ziglang", "cc", "-target", f"x86_64-linux-gnu.{GLIBC}", *arguments)


def newer_functions():
    """The object with what glibc 2.28 hasn't."""
    MADE.mkdir(parents=True, exist_ok=True)
    compiled = MADE / "glibc-2.28.o"
    zig("-w", "-O2", "-c", HERE / "glibc-2.28.c", "-o", compiled)
    return compiled


def rust():
    """The library and the programs."""
    variable = f"CARGO_TARGET_{TRIPLE.upper().replace('-', '_')}_RUSTFLAGS"
    # No path of this machine is in what users get.
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    flags = [f"-Clink-arg={newer_functions()}", f"--remap-path-prefix={home}=cargo", f"--remap-path-prefix={ROOT}=spirula"]
    environment = {**os.environ, "PATH": f"{tools()}:{os.environ['PATH']}", variable: " ".join(flags)}
    packages = [word for crate in CRATES for word in ("-p", crate)]
    target = ["--target", f"{TRIPLE}.{GLIBC}", "--target-dir", TARGET]
    show("cargo", "zigbuild", "--profile", "packaged", "--locked", *target, *packages, cwd=ROOT, env=environment)
    run("strip", "--strip-debug", source("built:libspirula.so"))


def texts():
    """What the command says of itself: its manual and completions."""
    for row in rows():
        kind, _, words = row[1].partition(":")
        if kind == "said":
            source(row[1]).write_text(run(source("built:spirula"), *words.split("-")))


def clang():
    """Clang's front end for OpenCL C, of clang's own archives."""
    prefix = Path(os.environ.get("LLVM_SYS_221_PREFIX", "/usr/lib/llvm-22"))
    archives = sorted((prefix / "lib").glob("libclang*.a"))
    header = prefix / "lib/clang/22/include/opencl-c-base.h"
    if not archives or not header.is_file():
        raise Failure("clang's archives are missing: install libclang-22-dev and libclang-common-22-dev")
    archives += map(Path, run(prefix / "bin/llvm-config", "--link-static", "--libfiles", "all").split())
    archives = [archive for archive in archives if not UNUSED.search(archive.name)]
    compiled = MADE / "clang.o"
    defined = [f"-D__STDC_{what}_MACROS" for what in ("CONSTANT", "FORMAT", "LIMIT")]
    quiet = ["-fno-rtti", "-fno-exceptions", "-ffunction-sections", "-I", prefix / "include"]
    run("g++", "-std=c++17", "-O2", *quiet, *defined, "-c", HERE / "clang/clang.cpp", "-o", compiled)
    others = [run("g++", f"-print-file-name=lib{name}.a").strip() for name in ("stdc++", "z", "zstd")]
    group = ["-Wl,--start-group", *archives, "-Wl,--end-group", *others, "-lunwind", "-lm"]
    zig("-s", "-Wl,--gc-sections", compiled, newer_functions(), *group, "-o", MADE / "clang-22")
    shutil.copyfile(header, MADE / header.name)


def loaded_by_pyopencl():
    """A library without code that brings ours along, to lie where pyopencl's own ICD loader looks: it is found by name there,
    wherever Python's packages are installed."""
    nothing, library = MADE / "nothing.c", MADE / "libspirula-pyopencl.so"
    nothing.write_text("")
    folder = TARGET / TRIPLE / "packaged"
    # From site-packages/pyopencl/.libs: lib/python3.11 is two folders above, or none with `pip install --target`.
    paths = [f"-Wl,-rpath,$ORIGIN/{way}" for way in ("../../../..", "../../lib")]
    needs = ["-L", folder, "-Wl,--no-as-needed", "-lspirula"]
    zig("-shared", "-s", "-nostdlib", nothing, *needs, *paths, "-Wl,-soname,libspirula-pyopencl.so", "-o", library)
    return library


def check_debugger(library):
    """Fails if GDB can't find its interface in it, whose names are no dynamic symbols."""
    if "__jit_debug_register_code" not in run("objdump", "-t", library):
        raise Failure(f"{library} has no symbols for GDB: it was stripped of them")


def check_symbols(binary):
    """Fails if it needs a newer glibc, or a library that isn't glibc's."""
    needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", binary))
    of_glibc = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
    if foreign := set(needed) - of_glibc:
        raise Failure(f"{binary} needs {', '.join(sorted(foreign))}")
    number = lambda version: [int(part) for part in version.split(".")]
    versions = re.findall(r"\(GLIBC_([0-9.]+)\)", run("objdump", "-T", binary))
    newest = max(versions, key=number)
    if number(newest) > number(GLIBC):
        raise Failure(f"{binary} needs glibc {newest}")
    return newest
