"""The licence texts of everything in a package: of the crates, of Rust's and C++'s standard libraries, of LLVM and the others."""

import json
import re
import subprocess
from pathlib import Path

from common import ROOT, TRIPLE, Failure, run
from binaries import CRATES, tools

# What Debian's archives are, and where Debian says how they may be used.
OF_DEBIAN = {
    "LLVM": ["llvm-22-dev", "libllvm22"],
    "libstdc++ (of GCC, by its runtime library exception)": ["gcc-12-base", "libstdc++-12-dev", "gcc-13-base", "gcc-14-base"],
    "zlib": ["zlib1g-dev"],
    "Zstandard": ["libzstd-dev"],
}
CLANG = {"LLVM and clang": ["libclang-22-dev", "llvm-22-dev"], **{name: OF_DEBIAN[name] for name in list(OF_DEBIAN)[1:]}}
NAMES = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def crates():
    """Name, version, licence and folder of each crate whose code is in the binaries, ours left out."""
    selected = [word for crate in CRATES for word in ("-p", crate)]
    tree = run("cargo", "tree", *selected, "-e", "normal", "--prefix", "none", "--target", TRIPLE, "--locked", cwd=ROOT)
    used = {tuple(line.split()[:2]) for line in tree.splitlines() if line and "(/" not in line}
    # Only what is printed to standard output is the answer.
    answer = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    found = {}
    for package in json.loads(answer.stdout)["packages"]:
        key = (package["name"], "v" + package["version"])
        if key in used:
            found[key] = (package["license"] or "see its text", Path(package["manifest_path"]).parent)
    if missing := used - set(found):
        raise Failure(f"cargo metadata doesn't know {missing}")
    return sorted((name, version[1:], *rest) for (name, version), rest in found.items())


def texts_of(folder):
    """The licence files of a crate."""
    return [path.read_text(errors="replace").strip() for path in sorted(folder.iterdir()) if path.is_file() and NAMES.search(path.name)]


def of_debian(parts):
    """Debian's word on each."""
    for name, packages in parts.items():
        files = [Path("/usr/share/doc", package, "copyright") for package in packages]
        found = next((file for file in files if file.is_file()), None)
        if not found:
            raise Failure(f"the licence of {name} is not found: none of {', '.join(map(str, files))}")
        yield name, found.read_text().strip()


def common_licences(parts):
    """The texts that Debian's words refer to, for those who have no Debian."""
    names = {name for _, text in parts for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", text)}
    files = [(name, Path("/usr/share/common-licenses", name)) for name in sorted(names)]
    return [(name, file.read_text().strip()) for name, file in files if file.is_file()]


def of_zig():
    """LLVM's unwinder and compiler-rt, and what of glibc is linked statically, come from Zig."""
    [folder] = (tools().parent / "lib").glob("python3*/site-packages/ziglang")
    yield "Zig (start code, compiler-rt)", (folder / "LICENSE").read_text().strip()


def of_rust():
    sysroot = Path(run("rustc", "--print", "sysroot").strip())
    page = sysroot / "share/doc/rust/COPYRIGHT-library.html"
    if page.is_file():
        text = re.sub(r"<[^>]*>", "", page.read_text())
        yield "Rust's standard library", re.sub(r"\n\s*\n\s*\n+", "\n\n", text).strip()
    else:
        yield "Rust's standard library (https://www.rust-lang.org/policies/licenses)", "Apache License 2.0 or MIT, at your option"


def joined(parts):
    """Parts with the same text stand together above it."""
    by_text = {}
    for name, text in parts:
        by_text.setdefault(text, []).append(name)
    line = "=" * 100
    return "\n\n".join(f"{line}\n{chr(10).join(names)}\n{line}\n\n{text}" for text, names in by_text.items()) + "\n"


def spirula():
    """Of the package spirula."""
    apache = (ROOT / "LICENSE-APACHE").read_text().strip()
    parts, short = [], []
    for name, version, licence, folder in crates():
        texts = texts_of(folder)
        # The standard text, where a crate has none and offers that one.
        if not texts and "Apache-2.0" in licence:
            texts = [apache]
        if not texts:
            raise Failure(f"the crate {name} {version} has no licence text, and is under {licence}")
        short.append(f"    {name} {version}: {licence}")
        parts += [(f"{name} {version}", text) for text in texts]
    start = "Spirula is licensed under Apache License 2.0 or MIT, at your option. In its binaries there is code of these crates,\n"
    start += "of LLVM, of Rust's and C++'s standard libraries, of zlib and Zstandard; their licences follow.\n\n"
    debian = list(of_debian(OF_DEBIAN))
    others = [*debian, *common_licences(debian), *of_rust(), *of_zig()]
    return start + "\n".join(short) + "\n\n" + joined(others + parts)


def clang():
    """Of the package spirula-clang."""
    start = "The program clang-22 is LLVM's clang, as Debian has it, linked with what follows.\n\n"
    debian = list(of_debian(CLANG))
    return start + joined([*debian, *common_licences(debian), *of_zig()])
