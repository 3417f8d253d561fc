"""`./x package`: makes Spirula's packages in target/package; with --check, tries them in bare containers (check.py)."""

import argparse

import archives
import binaries
import check
import licences
from common import MADE, WORK, files, main, source


def make():
    """All packages, and what they are."""
    for package in ("spirula", "spirula-clang"):
        for old in WORK.glob(f"{package.replace('-', '?')}[-_]*.*"):
            old.unlink()
    binaries.rust()
    binaries.texts()
    binaries.clang()
    (MADE / "licences.txt").write_text(licences.spirula())
    (MADE / "clang-licences.txt").write_text(licences.clang())
    binaries.check_debugger(source("built:libspirula.so"))
    made = [archives.tarball()]
    for package in ("spirula", "spirula-clang"):
        for file in files(package):
            if file.mode & 0o100:
                print(f"{file.to} needs glibc {binaries.check_symbols(file.source)}, {file.source.stat().st_size / 1e6:.1f} MB")
        made += [archives.debian(package), archives.wheel(package)]
        archives.audited(made[-1])
        print(f"{package}: {archives.size(package) / 1e6:.1f} MB installed")
    for path in made:
        print(f"{path} {path.stat().st_size / 1e6:.1f} MB")


def run():
    parser = argparse.ArgumentParser(prog="x package", description=__doc__)
    parser.add_argument("--check", action="store_true", help="try the packages that were made in bare containers (root, network)")
    parser.add_argument("--suite", metavar="NAME", action="append", help="only on this release of Debian's (bullseye, bookworm, trixie)")
    arguments = parser.parse_args()
    if arguments.check:
        check.all_of(arguments.suite or check.SUITES)
    else:
        make()


if __name__ == "__main__":
    main(run)
