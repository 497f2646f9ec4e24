"""Turns results into tables: medians, and how far CloudFS is from its targets."""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from mountbench import settings


@dataclass(frozen=True)
class Row:
    """A figure of the results, and what it is meant to be.

    `of_native` is a target relative to the local disk in the same run; `peer` names the
    variant of CloudFS that the target is for.
    """

    number: str
    label: str
    path: str
    is_more_better: bool = False
    target: float | None = None
    of_native: float | None = None
    peer: str = "cloudfs"
    scale: float = 1


ROWS = (
    Row("1", "1 GiB again, hot, MB/s", "sequential.hot.mb_per_s", True, of_native=0.95),
    Row("2", "1 GiB again, dropped, MB/s", "sequential.dropped.mb_per_s", True, of_native=0.95),
    Row("3", "1 GiB mapped, dropped, MB/s", "sequential.mapped.mb_per_s", True, of_native=0.95),
    Row("4", "random 4 KiB, 2 jobs, dropped, IOPS", "pages.dropped.iops", True, of_native=0.95),
    Row("5", "random 4 KiB, direct 16 x 2, IOPS", "pages.direct.iops", True, of_native=0.95),
    Row("6", "random 4 KiB, 2 jobs, hot, IOPS", "pages.hot.iops", True, of_native=0.9),
    Row("7", "cold first 4 KiB of 1 GiB, ms", "first.first.ms", target=3),
    Row("8", "cold first 4 KiB, link, ms", "link.first.first.ms", target=23),
    Row("9", "cold 1 GiB, MB/s", "sequential.cold.mb_per_s", True, 850),
    Row("9", "its daemon, CPU s", "sequential.cold.cpu_s", target=1.2),
    Row("10", "cold 1 GiB, link, MB/s", "link.sequential.cold.mb_per_s", True, 700),
    Row("11", "300 random 4 KiB, link, mean ms", "link.random.random.mean_ms", target=22),
    Row(
        *("11", "the same, MB fetched", "link.random.random.fetched_bytes"),
        target=40,
        peer="cloudfs-partial",
        scale=1e-6,
    ),
    Row("12", "1,000 cold 1 KiB files, files/s", "small.small.files_per_s", True, 4000),
    Row("13", "300, link, files/s", "link.small.small.files_per_s", True, 400),
    Row("14", "ls -l of 10,000, first, link, s", "link.listing.cold.s", target=0.8),
    Row("14", "the same, remounted, s", "link.listing.remounted.s", target=0.6),
    Row("15", "ls -l of 10,000, warm, s", "listing.warm.s", target=0.065),
    Row("16", "find in 100,000, first, s", "tree.cold.s", target=1.5),
    Row("16", "the same, link, s", "link.tree.cold.s", target=3),
    Row("17", "find in 100,000, warm, s", "tree.warm.s", target=0.25),
    Row("18", "stat, warm, per s", "listing.stat.per_s", True, of_native=0.95),
    Row("20", "memory idle, MB", "idle.idle.resident_mb", target=35),
    Row("20", "after 100,000 entries, MB", "tree.warm.resident_mb", target=70),
    Row("20", "peak while streaming, MB", "sequential.cold.peak_mb", target=80),
    Row("21", "create 1,000 of 4 KiB, until close, s", "create.create.s", target=0.3),
    Row(
        *("22", "the same, until in the cloud, s", "create.create.arrived_s"),
        target=1.0,
        peer="cloudfs-at-once",
    ),
    Row("23", "create 200, link, files/s", "link.create.create.files_per_s", True, 3500),
    Row(
        *("23", "the same, until in the cloud, s", "link.create.create.arrived_s"),
        target=0.6,
        peer="cloudfs-at-once",
    ),
    Row("24", "write 1 GiB until close, MB/s", "write.write.mb_per_s", True, of_native=0.9),
    Row("24", "the same, until in the cloud, s", "write.write.arrived_s"),
    Row("25", "untar 5,000 files, s", "source.untar.s", target=1.5),
    Row("26", "git clone, s", "source.git.clone_s", target=4.5),
    Row("26", "git status, s", "source.git.status_s", target=0.06),
)

# A workload that did less than this did not do its work, however fast.
_WHOLE = {
    "listing.cold": settings.FLAT_FILES,
    "listing.warm": settings.FLAT_FILES,
    "listing.remounted": settings.FLAT_FILES,
    "tree.cold": settings.TREE_FILES,
    "tree.warm": settings.TREE_FILES,
    "sequential.cold": settings.GIB,
}


def print_table(files: list[Path]) -> None:
    """One table of all targets; the ratio is how many times worse than its target."""
    records = [json.loads(file.read_text()) for file in files]
    repetitions = [each for record in records for each in record["repetitions"]]
    names = list(dict.fromkeys(name for record in records for name in record["peers"]))
    print(f"| # | what | native | {' | '.join(names)} | target | ratio |")
    print("|---|---|" + "---|" * (len(names) + 3))
    for row in ROWS:
        cells = [_cell(row, repetitions, name) for name in ("native", *names)]
        if not any(cells[1:]):
            continue
        target, ratio = _judged(row, repetitions)
        shown = " | ".join(cell or "–" for cell in cells)
        print(f"| {row.number} | {row.label} | {shown} | {target} | {ratio} |")


def print_requests(files: list[Path], peer: str) -> None:
    """What each workload asked of the cloud, in the first repetition that has it."""
    for file in files:
        for case, targets in json.loads(file.read_text())["repetitions"][0]["cases"].items():
            for name, result in targets.get(peer, {}).items():
                if requests := result.get("requests"):
                    counted = ", ".join(f"{count} {kind}" for kind, count in requests.items())
                    megabytes = result["fetched_bytes"] / 1e6
                    print(f"| {case}.{name} | {counted} | {megabytes:.1f} |")


def _values(row: Row, repetitions: list[dict], target: str) -> list[float]:
    *case, result, figure = row.path.split(".")
    found = []
    for repetition in repetitions:
        results = repetition["cases"].get(".".join(case), {}).get(target, {}).get(result, {})
        whole = _WHOLE.get(f"{case[-1]}.{result}")
        done = results.get("bytes", results.get("n"))
        value = results.get(figure)
        if value is not None and "error" not in results and (whole is None or done == whole):
            found.append(value * row.scale)
    return found


def _cell(row: Row, repetitions: list[dict], target: str) -> str:
    values = _values(row, repetitions, target)
    if not values:
        return ""
    median = _format(statistics.median(values))
    if len(values) == 1:
        return median
    return f"{median} ({_format(min(values))}–{_format(max(values))})"


def _judged(row: Row, repetitions: list[dict]) -> tuple[str, str]:
    values = _values(row, repetitions, row.peer) or _values(row, repetitions, "cloudfs")
    target = row.target
    text = _format(target) if target else "–"
    if row.of_native:
        native = _values(row, repetitions, "native")
        target = statistics.median(native) * row.of_native if native else None
        text = f"{row.of_native} of native"
    if not values or not target:
        return text, "–"
    value = statistics.median(values)
    return text, f"{target / value if row.is_more_better else value / target:.2f}"


def _format(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
