"""Writes a dated report: what was measured with, every figure, and which targets are met."""

import json
import time
from pathlib import Path

from mountbench import settings
from mountbench.report import ROWS, Results, Row, shown

# A machine that does nothing else is busy for less than this share of its time.
_QUIET = 0.1


def write(results: Path, command: str) -> Path:
    """Makes the report of one file of results, and a line for it in the list of reports."""
    stamp = time.strftime("%F-%H%M")
    report = settings.REPORTS / f"{stamp}.md"
    found = Results([results])
    record = json.loads(results.read_text())
    report.write_text("\n".join(_text(found, record, command)) + "\n")
    _list(report, found)
    return report


def _text(found: Results, record: dict, command: str):
    when = found.repetitions[0]["when"]
    yield f"# Benchmarks of {when[:16]}"
    yield ""
    yield from _machine(found, record)
    yield ""
    yield from _commands(record, command)
    yield ""
    yield from _targets(found)
    yield ""
    yield "## Figures"
    yield ""
    yield (
        f"Medians of {len(found.repetitions)}, with the extremes. *Ratio* is how many times worse "
        "than its target CloudFS is. What the words mean is said in "
        "[Benchmarks](../../Benchmarks/README.md)."
    )
    yield ""
    yield from found.table()
    if failures := list(found.failures()):
        yield from ("", "## What did not do its work", "")
        yield from (f"* {_shown(line)}" for line in failures)
    if requests := list(found.requests("cloudfs")):
        yield from ("", "## Requests of the first repetition", "")
        yield from ("| case | requests | MB fetched |", "|---|---|---|")
        yield from requests


def _machine(found: Results, record: dict):
    machine = found.repetitions[0]["machine"]
    yield from ("## Machine", "")
    yield (
        f"* {machine['processors']} processors ({machine['processor']}), "
        f"{machine['memory_gib']} GiB of memory; what is local is on {machine['disk']}."
    )
    yield f"* {machine['system']}, Linux {machine['kernel']}."
    yield f"* CloudFS at {machine['commit'] or 'an unknown commit'}, release build."
    tools = [f"{name}: {version}" for name, version in record["versions"].items() if version]
    yield f"* {'; '.join(tools)}."
    busy = [repetition["busy"] for repetition in found.repetitions]
    yield (
        "* Processors busy with other programs before each repetition: "
        f"{', '.join(f'{share:.0%}' for share in busy)}."
    )
    if max(busy) > _QUIET:
        yield "* **Something else ran meanwhile**: ratios mean something, single figures little."


def _commands(record: dict, command: str):
    yield from ("## Commands", "", "```sh", command, "```", "")
    yield "What it mounted, where `$BENCH_ROOT` is the folder of the benchmarks:"
    yield ""
    yield from ("| peer | version | command |", "|---|---|---|")
    for name, peer in record["peers"].items():
        yield f"| {name} | {peer['version']} | `{_shown(' '.join(peer['command']))}` |"


def _shown(text: str) -> str:
    """Without the folders of the machine that measured."""
    for path, name in (
        (settings.PROGRAMS, ".build/release"),
        (settings.ROOT, "$BENCH_ROOT"),
        (settings.CLOUD, "$BENCH_CLOUD"),
    ):
        text = text.replace(str(path), name)
    return text


def _targets(found: Results):
    """Every row of the targets, whatever became of it."""
    judged = [(row, found.judge(row)) for row in ROWS]
    kinds = {
        "Met": [row for row, each in judged if each.verdict == "met"],
        "Missed": [
            f"{_named(row)} ({each.ratio:.2f})" for row, each in judged if each.verdict == "missed"
        ],
        "Not measured, or without native beside it": [
            row for row, each in judged if each.verdict == "–" and each.target != "–"
        ],
        "Without a target": [row for row, each in judged if each.target == "–"],
    }
    yield from ("## Targets", "")
    for kind, rows in kinds.items():
        names = "; ".join(row if isinstance(row, str) else _named(row) for row in rows)
        yield f"* **{kind}** ({len(rows)}): {names or 'none'}."
    for variant in (name for name in found.peers if _is_own(name)):
        behind = [line for row in _compared(variant) for line in _behind(found, row, variant)]
        yield f"* **Peers that are better than {variant}**: {'; '.join(behind) or 'none'}."


def _is_own(name: str) -> bool:
    return name.startswith("cloudfs")


def _compared(variant: str) -> list[Row]:
    """What it is compared in with peers: each figure once, also one with two targets.

    Both ways to the bytes of local files, as users with and without rights have them, in all that
    they were measured in; a variant for one purpose in what it is there for.
    """
    rows = {}
    for row in ROWS:
        if variant in ("cloudfs", "cloudfs-spliced", row.peer):
            rows.setdefault(row.figure, row)
    return list(rows.values())


def _behind(found: Results, row: Row, variant: str):
    own = found.median(row, variant)
    for name in found.peers:
        other = found.median(row, name)
        if own is None or other is None or _is_own(name):
            continue
        if other > own if row.more_is_better else other < own:
            yield f"{name} in {_named(row)} ({shown(other)}, not {shown(own)})"


def _named(row: Row) -> str:
    return f"{row.number}: {row.what}"


def _list(report: Path, found: Results) -> None:
    """Puts the newest first."""
    index = settings.REPORTS / "README.md"
    lines = index.read_text().splitlines()
    verdicts = [found.judge(row).verdict for row in ROWS]
    met, missed = verdicts.count("met"), verdicts.count("missed")
    machine = found.repetitions[0]["machine"]
    line = (
        f"* [{report.stem}]({report.name}): CloudFS at {machine['commit'] or 'an unknown commit'}, "
        f"{met} targets met, {missed} missed, {len(ROWS) - met - missed} not measured or without."
    )
    lines = [each for each in lines if f"({report.name})" not in each]
    place = next((n for n, each in enumerate(lines) if each.startswith("* [")), len(lines))
    lines.insert(place, line)
    index.write_text("\n".join(lines) + "\n")
