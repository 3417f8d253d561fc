"""The packages themselves: tarball, Debian's package, Python's wheel. The same bytes each time, for one commit."""

import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import time
import zipfile
from pathlib import Path

from common import GLIBC, HERE, WORK, Failure, date, files, run, stage, version
from binaries import loaded_by_pyopencl, tools

SUMMARY = {
    "spirula": "OpenCL runtime for CPUs that takes SPIR, SPIR-V and, with clang, OpenCL C",
    "spirula-clang": "clang's front end for OpenCL C, for the OpenCL runtime Spirula",
}
MAINTAINER = "The Spirula developers <spirula@localhost>"


def size(package):
    """Bytes that are installed."""
    return sum(file.source.stat().st_size for file in files(package))


# ---- tarball

def entry(name, mode, length, kind=tarfile.REGTYPE):
    """A file of nobody's, of the commit's time."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.type, entry.mtime = length, mode, kind, date()
    entry.uname = entry.gname = "root"
    return entry


def tarball():
    """All of it below one folder, with a script that puts it below a prefix."""
    name = f"spirula-{version()}-linux-x86_64"
    path = WORK / f"{name}.tar.gz"
    # gzip: every system has it.
    with gzip.GzipFile(path, "wb", mtime=date()) as compressed, tarfile.open(fileobj=compressed, mode="w") as archive:
        script = (HERE / "install.sh").read_bytes()
        archive.addfile(entry(f"{name}/install.sh", 0o755, len(script)), io.BytesIO(script))
        for file in sorted(files("spirula") + files("spirula-clang"), key=lambda file: file.to):
            with file.source.open("rb") as contents:
                archive.addfile(entry(f"{name}/{file.to}", file.mode, file.source.stat().st_size), contents)
    return path


# ---- Debian

def debian(package):
    """One package of Debian's."""
    root = WORK / "debian" / package
    shutil.rmtree(root, ignore_errors=True)
    stage(package, root / "usr")
    documents = root / "usr/share/doc" / package
    licences = next(documents.glob("*licences.txt"))
    licences.rename(documents / "copyright")
    changes = f"{package} ({version()}) unstable; urgency=medium\n\n  * What is new is in Spirula's CHANGELOG.md.\n\n"
    changes += f" -- {MAINTAINER}  {time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime(date()))}\n"
    (documents / "changelog.gz").write_bytes(gzip.compress(changes.encode(), mtime=0))
    fields = {
        "Package": package,
        "Version": version(),
        "Architecture": "amd64",
        "Maintainer": MAINTAINER,
        "Section": "libs",
        "Priority": "optional",
        "Installed-Size": sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024,
        "Depends": f"libc6 (>= {GLIBC})",
        "Description": SUMMARY[package],
    }
    if package == "spirula":
        vendors = root / "etc/OpenCL/vendors"
        vendors.mkdir(parents=True)
        (vendors / "spirula.icd").write_text("/usr/lib/libspirula.so\n")
        fields["Recommends"] = "ocl-icd-libopencl1 | libopencl1, spirula-clang | clang-22"
        fields["Provides"] = "opencl-icd"
    control = root / "DEBIAN"
    control.mkdir()
    (control / "control").write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (date(), date()))
    output = WORK / f"{package}_{version()}_amd64.deb"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(date())}
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, output, env=environment)
    return output


# ---- Python

DESCRIPTION = """\
Spirula is an OpenCL runtime for CPUs: a driver that programs find through the OpenCL loader.

    pip install spirula pyopencl          # SPIR binaries and SPIR-V
    pip install spirula[clang] pyopencl   # OpenCL C as well: {clang} MB more

PyPI's pyopencl finds it from then on. For other programs of the environment:

    export OCL_ICD_FILENAMES=$(python -m spirula)
"""


def metadata(package):
    """What pip reads of it."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {package}",
        f"Version: {version()}",
        f"Summary: {SUMMARY[package]}",
        "License: MIT OR Apache-2.0" if package == "spirula" else "License: Apache-2.0 WITH LLVM-exception",
        "Requires-Python: >=3.8",
        "Classifier: Operating System :: POSIX :: Linux",
    ]
    if package == "spirula":
        lines += ["Provides-Extra: clang", f'Requires-Dist: spirula-clang (=={version()}) ; extra == "clang"']
        lines += ["Description-Content-Type: text/markdown", "", DESCRIPTION.format(clang=size("spirula-clang") >> 20)]
    return "\n".join(lines) + "\n"


def place(file, package, distribution):
    """Where a wheel has a file. None: not in wheels. (pip removes folders that hold files, and leaves those that hold such folders.)"""
    documents = f"share/doc/{package}/"
    if file.to.startswith("bin/"):
        # For pip to make it executable wherever it puts programs.
        return f"{distribution}.data/scripts/{file.to[4:]}"
    if file.to.startswith(documents + "examples/"):
        return f"spirula/{Path(file.to).name}"
    if file.to.startswith(documents):
        return f"{distribution}.dist-info/licenses/{file.to[len(documents):]}"
    return f"{distribution}.data/data/{file.to}" if file.to.startswith("lib/") else None


def contents(package):
    """Names, modes and bytes of a wheel's files, in order."""
    distribution = f"{package.replace('-', '_')}-{version()}"
    for file in files(package):
        if to := place(file, package, distribution):
            yield to, file.mode, file.source.read_bytes()
    if package == "spirula":
        for module in sorted((HERE / "python").iterdir()):
            yield f"spirula/{module.name}", 0o644, module.read_bytes()
        library = loaded_by_pyopencl()
        yield f"pyopencl/.libs/{library.name}", 0o755, library.read_bytes()
        yield "pyopencl/.libs/spirula.icd", 0o644, f"{library.name}\n".encode()
    information = f"{distribution}.dist-info"
    yield f"{information}/METADATA", 0o644, metadata(package).encode()
    tag = f"py3-none-{platform_tag()}"
    wheel = f"Wheel-Version: 1.0\nGenerator: spirula\nRoot-Is-Purelib: true\nTag: {tag}\n"
    yield f"{information}/WHEEL", 0o644, wheel.encode()


def platform_tag():
    return f"manylinux_{GLIBC.replace('.', '_')}_x86_64"


def wheel(package):
    """A wheel for any Python 3."""
    distribution = f"{package.replace('-', '_')}-{version()}"
    path = WORK / f"{distribution}-py3-none-{platform_tag()}.whl"
    # The earliest time that a zip file knows.
    when = time.gmtime(max(date(), 315532800))[:6]
    records = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, mode, data):
            member = zipfile.ZipInfo(name, when)
            member.external_attr = (0o100000 | mode) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)

        for name, mode, data in contents(package):
            add(name, mode, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            records.append(f"{name},sha256={digest},{len(data)}")
        record = f"{distribution}.dist-info/RECORD"
        add(record, 0o644, "\n".join([*records, f"{record},,"]).encode() + b"\n")
    return path


def audited(path):
    """Fails if auditwheel says that a wheel needs more than its tag promises."""
    said = run(tools() / "auditwheel", "show", path)
    promised = int(GLIBC.split(".")[1])
    needed = [int(number) for number in re.findall(r'"manylinux_2_(\d+)_x86_64"', said)]
    if not needed or max(needed) > promised:
        raise Failure(f"auditwheel says otherwise than {path.name}:\n{said}")
