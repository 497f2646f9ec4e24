"""Makes the data that is measured with: the same bytes on every machine.

`big/` has one file of 1 GiB, `flat/` 10,000 files of 1 KiB in one folder, `tree/` 100,000 in
100 folders of 10 folders each. The source tree is what a version control system checks out; the
program is what a compiler works on.
"""

import random
import string
import subprocess
import tempfile
from pathlib import Path

from mountbench import settings

_MIB = 1 << 20


def make_all() -> None:
    """Makes what is missing: the bucket, the same as a folder, and the source tree."""
    _make_once(settings.CLOUD / "data" / settings.BUCKET, _make_files)
    _make_once(settings.LOCAL, _make_files)
    _make_once(settings.ROOT / "source", _make_source)
    _make_once(settings.ROOT / "program", _make_program)


def make_native() -> None:
    """Makes what is missing of the same on the disk, which only root can have mounted."""
    _make_once(settings.NATIVE, _make_files)


def _make_once(folder: Path, make) -> None:
    complete = folder.with_name(f".{folder.name}.complete")
    if complete.exists():
        return
    print(f"Making {folder}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    complete.touch()


def _make_files(root: Path) -> None:
    source = random.Random(7)
    for folder in ("big", "flat", "tree", "w"):
        (root / folder).mkdir(exist_ok=True)
    with open(root / settings.BIG_FILE, "wb") as file:
        for _ in range(settings.GIB // (16 * _MIB)):
            file.write(source.randbytes(16 * _MIB))
    for number in range(settings.FLAT_FILES):
        (root / "flat" / f"f{number:05d}.txt").write_bytes(source.randbytes(1024))
    for outer in range(100):
        for inner in range(10):
            folder = root / "tree" / f"d{outer:02d}" / f"s{inner}"
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(100):
                (folder / f"f{number:03d}.txt").write_bytes(source.randbytes(1024))


def _make_source(folder: Path) -> None:
    source = random.Random(11)
    letters = string.ascii_lowercase
    words = [
        "".join(source.choice(letters) for _ in range(source.randint(2, 9))) for _ in range(3000)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary) / "src"
        for number in range(settings.SOURCE_FILES):
            package = top / f"m{number % 17:02d}" / f"p{number % 289:03d}"
            package.mkdir(parents=True, exist_ok=True)
            length = min(200_000, int(source.lognormvariate(8.2, 1.1)))
            text = " ".join(_words_of(length, words, source))[:length]
            (package / f"file{number:04d}.c").write_text(text + "\n")
        _run("tar", "cf", folder / "src.tar", "-C", temporary, "src")
        git = ("git", "-C", top, "-c", "user.name=b", "-c", "user.email=b@example.invalid")
        _run("git", "-c", "init.defaultBranch=main", "-C", top, "init", "-q")
        _run(*git, "add", ".")
        _run(*git, "commit", "-q", "-m", "one")
        _run("git", "clone", "-q", "--bare", top, folder / "src.git")


def _make_program(folder: Path) -> None:
    """Small C files that include each other's headers; the program counts them."""
    units = range(settings.UNITS)
    for number in units:
        (folder / f"unit{number:02d}.h").write_text(f"int unit{number:02d}(const char *text);\n")
        others = [(number + step) % settings.UNITS for step in (1, 7, 23)]
        lines = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
        lines += [f'#include "unit{other:02d}.h"' for other in (number, *others)]
        for part in range(20):
            lines += [
                f"static int part{part}(const char *text, int value) {{",
                "    for (size_t place = 0; place < strlen(text); place++)",
                f"        value = value * {part + 3} + text[place] % {number + 2};",
                "    return value;",
                "}",
            ]
        sums = " + ".join(f"part{part}(text, {part})" for part in range(20))
        lines += [f"int unit{number:02d}(const char *text) {{", f"    return ({sums}) | 1;", "}"]
        (folder / f"unit{number:02d}.c").write_text("\n".join(lines) + "\n")
    last = folder / f"unit{units[-1]:02d}.c"
    calls = " + ".join(f'(unit{number:02d}("text") != 0)' for number in units)
    headers = "".join(f'#include "unit{number:02d}.h"\n' for number in units)
    main = f'int main(void) {{\n    printf("%d\\n", {calls});\n    return 0;\n}}\n'
    last.write_text(headers + last.read_text() + main)


def _words_of(length: int, words: list[str], source: random.Random) -> list[str]:
    chosen, total = [], 0
    while total < length:
        chosen.append(source.choice(words))
        total += len(chosen[-1]) + 1
    return chosen


def _run(*command) -> None:
    subprocess.run([str(word) for word in command], check=True)
