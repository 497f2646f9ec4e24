"""What this machine tells about itself and about processes."""

import os
import platform
import subprocess
from pathlib import Path

from mountbench import settings

_TICKS = os.sysconf("SC_CLK_TCK")


def drop_caches(what: int) -> None:
    """Forgets clean pages (1), or pages, entries and inodes (3), of every file system."""
    subprocess.run(["sync", "-f", str(settings.ROOT)], check=True)
    Path("/proc/sys/vm/drop_caches").write_text(str(what))


def is_mounted(mountpoint: Path) -> bool:
    return any(
        line.split()[1] == str(mountpoint)
        for line in Path("/proc/self/mounts").read_text().splitlines()
    )


def usage(root: int | None) -> dict:
    """Processor time and memory of a process and all it started."""
    cpu = resident = peak = 0
    for process in _with_descendants(root) if root else []:
        try:
            times = _stat_fields(Path(f"/proc/{process}/stat").read_text())
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        cpu += int(times[11]) + int(times[12])
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                resident += int(line.split()[1])
            elif line.startswith("VmHWM:"):
                peak += int(line.split()[1])
    return {"cpu_s": cpu / _TICKS, "resident_mb": resident / 1024, "peak_mb": peak / 1024}


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
    return {
        "processor": model[0] if model else platform.machine(),
        "processors": os.cpu_count(),
        "memory_gib": round(int(memory) / (1 << 20), 1),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "commit": _first_line("git", "-C", settings.PROJECT, "rev-parse", "--short", "HEAD"),
    }


def _first_line(*command) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    return done.stdout.partition("\n")[0]
