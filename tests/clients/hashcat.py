"""hashcat cracks hashes whose passwords are known; with `speed`, what its benchmark says of ten modes."""

import os
import sys
import tempfile

from client import last_words, output_of, report

# Mode, name, hash, password, mask.
HASHES = [
    (0, "md5", "94eb3a369b7351355207440be472f70b", "spirula7", "spirul?l?d"),
    (100, "sha1", "5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8", "password", "passwo?l?l"),
    (1400, "sha256", "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8", "password", "passwo?l?l"),
    (
        1700,
        "sha512",
        "b109f3bbbc244eb82441917ed06d618b9008dd09b3befd1b5e07394c706a8bb9"
        "80b1d7785e5976ec049b46df5f1326af5a2ea6d103fd07c95385ffab0cacbc86",
        "password",
        "passwo?l?l",
    ),
    (1000, "ntlm", "8846f7eaee8fb117ad06bdd830b7586c", "password", "passwo?l?l"),
    (3200, "bcrypt", "$2a$05$LhayLxezLhK1LhWvKxCyLOj0j1u.Kj0jZ0pEmm134uzrQlFvQJLF6", "hashcat", "hashca?l"),
]
SPEEDS = [0, 100, 900, 1000, 1400, 1700, 500, 5600, 22000, 3200]


def crack(mode, name, digest, password, mask):
    with tempfile.TemporaryDirectory() as folder:
        hashes = os.path.join(folder, "hash")
        with open(hashes, "w", encoding="ascii") as file:
            file.write(digest + "\n")
        command = ["hashcat", "-D", "1", "-m", str(mode), "-a", "3", hashes, mask, "--potfile-disable"]
        status, text = output_of(command + ["--session", f"spirula{os.getpid()}"], cwd=folder)
    found = f"{digest}:{password}" in text
    report(f"cracks {name}", status == 0 and found, "" if found else last_words(text))


def speed(mode):
    command = ["hashcat", "-b", "-D", "1", "-m", str(mode), "--machine-readable", "--session", f"spirula{os.getpid()}"]
    status, text = output_of(command)
    # Device, mode, clocks, temperature, runtime, hashes a second.
    rows = [line.split(":") for line in text.splitlines() if line.startswith("1:")]
    speeds = [float(row[-1]) for row in rows if len(row) >= 6]
    shown = f"{speeds[0] / 1e6:.3f} MH/s" if speeds else last_words(text)
    report(f"mode {mode}", status == 0 and bool(speeds), shown)


if sys.argv[1:] == ["speed"]:
    for one in SPEEDS:
        speed(one)
else:
    for case in HASHES:
        crack(*case)
