"""What this machine tells about itself and about processes."""

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from mountbench import settings

_TICKS = os.sysconf("SC_CLK_TCK")


def drop_caches(what: int) -> None:
    """Forgets clean pages (1), or pages, entries and inodes (3), of every file system."""
    subprocess.run(["sync", "-f", str(settings.DISK)], check=True)
    Path("/proc/sys/vm/drop_caches").write_text(str(what))


def is_mounted(mountpoint: Path) -> bool:
    return any(place == str(mountpoint) for place, _ in _mounts())


def _mounts() -> Iterator[tuple[str, str]]:
    """Where something is mounted, and the type of that file system."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        yield place, kind


def _file_system(path: Path) -> str:
    """The type of the file system that a path is on; `stat -f` has one name for three of them."""
    ancestors = [str(each) for each in (path, *path.parents)]
    # Of those that are mounted at one place, the last one shows.
    kinds = dict(_mounts())
    return next((kinds[each] for each in ancestors if each in kinds), "")


def usage(root: int | None) -> dict:
    """Processor time and memory of a process and all it started; what they share counts once.

    No peak is kept of that: what they share now is taken from the sum of their peaks.
    """
    cpu = resident = peak = mapped = 0
    for process in _with_descendants(root) if root else []:
        try:
            times = _stat_fields(Path(f"/proc/{process}/stat").read_text())
            status = Path(f"/proc/{process}/status").read_text()
            memory = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        cpu += int(times[11]) + int(times[12])
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                peak += int(line.split()[1])
        for line in memory.splitlines():
            if line.startswith("Pss:"):
                resident += int(line.split()[1])
            if line.startswith("Rss:"):
                mapped += int(line.split()[1])
    peak -= mapped - resident
    return {"cpu_s": cpu / _TICKS, "resident_mb": resident / 1024, "peak_mb": peak / 1024}


def forget_peaks(root: int | None) -> None:
    """Has the peaks of a process and all it started begin from what they hold now."""
    for process in _with_descendants(root) if root else []:
        # One that ended meanwhile has no peak any more.
        with contextlib.suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")


def busy(seconds: float) -> float:
    """Which share of their time the processors work, while nothing of ours does."""

    def times() -> tuple[int, int]:
        fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        # The fourth and fifth are what they idle and what they wait for the disk.
        return sum(fields), fields[3] + fields[4]

    total, idle = times()
    time.sleep(seconds)
    total_then, idle_then = times()
    return 1 - (idle_then - idle) / max(1, total_then - total)


def watch(root: int, seconds: float) -> dict:
    """How often a process and all it started were woken in a while, and how long they ran."""
    begin, before = time.monotonic(), _threads(root)
    time.sleep(seconds)
    elapsed, after = time.monotonic() - begin, _threads(root)
    woken = ran = 0
    for thread, (sleeps, nanoseconds) in after.items():
        # One that is new has done all of it meanwhile.
        earlier_sleeps, earlier_nanoseconds = before.get(thread, (0, 0))
        woken += sleeps - earlier_sleeps
        ran += nanoseconds - earlier_nanoseconds
    return {"s": elapsed, "wakeups_per_s": woken / elapsed, "cpu_ms": ran / 1e6}


def _threads(root: int) -> dict[str, tuple[int, int]]:
    """Of each thread how often it went to sleep, and for how many nanoseconds it ran."""
    found = {}
    for process in _with_descendants(root):
        for folder in Path(f"/proc/{process}/task").glob("*"):
            try:
                status = (folder / "status").read_text()
                ran = int((folder / "schedstat").read_text().split()[0])
            except OSError:
                continue
            sleeps = status.partition("\nvoluntary_ctxt_switches:")[2].split()[0]
            found[folder.name] = (int(sleeps), ran)
    return found


def _stat_fields(text: str) -> list[str]:
    # The name in parentheses may hold anything, blanks and parentheses too.
    return text[text.rindex(")") + 2 :].split()


def _with_descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(_stat_fields(stat.read_text())[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, queue = [], [root]
    while queue:
        process = queue.pop()
        found.append(process)
        queue += children.get(process, [])
    return found


def description() -> dict:
    """What belongs before any number."""
    model = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = Path("/proc/meminfo").read_text().split()[1]
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return {
        "processor": model[0] if model else platform.machine(),
        "processors": os.cpu_count(),
        "memory_gib": round(int(memory) / (1 << 20), 1),
        "system": system,
        "kernel": platform.release(),
        "disk": _file_system(settings.DISK),
        "load": os.getloadavg()[0],
        "commit": _commit(),
    }


def versions() -> dict[str, str]:
    """Of the tools that take part, beside the peers."""
    asked = {
        "libfuse": ("fusermount3", "--version"),
        "Swift": ("swift", "--version"),
        "fio": ("fio", "--version"),
        "git": ("git", "--version"),
        "Python": ("python3", "--version"),
    }
    return {name: _first_line(*command) for name, command in asked.items()}


def _commit() -> str:
    # Also where the folder is another user's, as with sudo.
    git = ("git", "-c", "safe.directory=*", "-C", settings.PROJECT)
    commit = _first_line(*git, "rev-parse", "--short", "HEAD")
    changed = _first_line(*git, "status", "--porcelain", "--", "Sources", "Package.swift")
    return f"{commit} with changes" if changed else commit


def _first_line(*command) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.partition("\n")[0]
