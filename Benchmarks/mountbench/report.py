"""Turns results into tables: medians, and how far CloudFS is from its targets."""

import json
import statistics
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mountbench import settings


@dataclass(frozen=True)
class Row:
    """A figure of the results, and what it is meant to be; see targets.toml."""

    number: int
    what: str
    figure: str
    more_is_better: bool = False
    target: float | None = None
    of_native: float | None = None
    peer: str = "cloudfs"
    scale: float = 1
    then: dict[str, float] = field(default_factory=dict)

    @property
    def case(self) -> str:
        """What measures it: `link.first` for `link.first.first.ms`."""
        return self.figure.rsplit(".", 2)[0]


@dataclass(frozen=True)
class Judgement:
    """How many times worse than its target a row is; at most 1 is good, nothing is unknown."""

    target: str
    ratio: float | None = None

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "–"
        return "met" if round(self.ratio, 2) <= 1 else "missed"


ROWS = tuple(Row(**row) for row in tomllib.loads(settings.TARGETS_FILE.read_text())["row"])

# A workload that did less than this did not do its work, however fast.
_WHOLE = {
    "listing.cold": settings.FLAT_FILES,
    "listing.warm": settings.FLAT_FILES,
    "listing.remounted": settings.FLAT_FILES,
    "tree.cold": settings.TREE_FILES,
    "tree.warm": settings.TREE_FILES,
    "sequential.cold": settings.GIB,
    "attributes.attributes": settings.FLAT_FILES,
    "wide.cold": settings.WIDE_FILES,
    "wide.remounted": settings.WIDE_FILES,
    "rename.rename": settings.RENAMED_FILES,
    "source.removed": settings.SOURCE_FILES,
    "build.build": settings.UNITS,
}


class Results:
    """What the repetitions of some files found."""

    def __init__(self, files: list[Path]) -> None:
        records = [json.loads(file.read_text()) for file in files]
        self.peers: dict[str, dict] = {}
        for record in records:
            self.peers |= record["peers"]
        self.repetitions: list[dict] = [
            repetition for record in records for repetition in record["repetitions"]
        ]

    def values(self, row: Row, target: str) -> list[float]:
        _, result, figure = row.figure.rsplit(".", 2)
        found = []
        for repetition in self.repetitions:
            results = repetition["cases"].get(row.case, {}).get(target, {}).get(result, {})
            whole = _WHOLE.get(f"{row.case.removeprefix('link.')}.{result}")
            done = results.get("bytes", results.get("n"))
            value = results.get(figure)
            if value is not None and "error" not in results and (whole is None or done == whole):
                found.append(value * row.scale)
        return found

    def median(self, row: Row, target: str) -> float | None:
        values = self.values(row, target)
        return statistics.median(values) if values else None

    def judge(self, row: Row) -> Judgement:
        value, target = self.median(row, row.peer), row.target
        text = shown(target) if target else "–"
        if row.of_native:
            native = self.median(row, "native")
            target = native * row.of_native if native else None
            text = f"{row.of_native} of native"
        if not value or not target:
            return Judgement(text)
        return Judgement(text, target / value if row.more_is_better else value / target)

    def table(self) -> Iterator[str]:
        """The rows of which anything is known, in Markdown."""
        yield f"| # | what | native | {' | '.join(self.peers)} | target | ratio | |"
        yield "|---|---|" + "---|" * (len(self.peers) + 4)
        seen: set[str] = set()
        for row in ROWS:
            # What a row above has shown is not shown again for another target.
            names = {"native", row.peer} if row.figure in seen else {"native", *self.peers}
            seen.add(row.figure)
            cells = {
                name: self._cell(row, name) if name in names else ""
                for name in ("native", *self.peers)
            }
            if not any(cell for name, cell in cells.items() if name != "native"):
                continue
            judged = self.judge(row)
            ratio = "–" if judged.ratio is None else f"{judged.ratio:.2f}"
            figures = " | ".join(cell or "–" for cell in cells.values())
            yield (
                f"| {row.number} | {row.what} | {figures} "
                f"| {judged.target} | {ratio} | {judged.verdict} |"
            )

    def requests(self, peer: str) -> Iterator[str]:
        """What each workload asked of the cloud, in the first repetition that has it."""
        for case, targets in self.repetitions[0]["cases"].items():
            for name, result in targets.get(peer, {}).items():
                if requests := result.get("requests"):
                    counted = ", ".join(f"{count} {kind}" for kind, count in requests.items())
                    megabytes = result["fetched_bytes"] / 1e6
                    yield f"| {case}.{name} | {counted} | {megabytes:.1f} |"

    def failures(self) -> Iterator[str]:
        """What did not do its work."""
        for number, repetition in enumerate(self.repetitions, 1):
            for case, targets in repetition["cases"].items():
                for target, results in targets.items():
                    for name, result in results.items():
                        if error := failure(result):
                            yield f"{case}.{name} of {target}, repetition {number}: {error}"

    def _cell(self, row: Row, target: str) -> str:
        values = self.values(row, target)
        if not values:
            return ""
        median = shown(statistics.median(values))
        if len(values) == 1:
            return median
        return f"{median} ({shown(min(values))}–{shown(max(values))})"


def failure(result: dict) -> str | None:
    """Why a workload has no figures, in words."""
    if "error" in result:
        return result["error"]
    return f"took longer than {result['timeout']} s" if "timeout" in result else None


def print_table(files: list[Path]) -> None:
    """One table of all targets; the ratio is how many times worse than its target."""
    print("\n".join(Results(files).table()))


def print_requests(files: list[Path], peer: str) -> None:
    for file in files:
        for line in Results([file]).requests(peer):
            print(line)


def shown(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
