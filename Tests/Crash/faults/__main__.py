"""The command line; see `scripts/fault-test --help`."""

import argparse
import http.client
import itertools
import random
import shutil
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Callable, Iterator

from crash.tree import Failure
from faults.first import FirstKills, FirstRun
from faults.kills import Kills
from faults.page import BUCKET, Kind, kinds
from faults.run import Run

# Whose drive is used: whether its cloud is a bucket, and what is done to it.
Key = tuple[bool, bool, bool]


class Trials:
    """All faults that were asked for, on the same drives as long as nothing is wrong."""

    def __init__(self, options: argparse.Namespace, seed: int):
        self.options = options
        self.seed = seed
        self.random = random.Random(seed)
        # One that sends at once and one that sends at its end, on a folder and on a bucket.
        self.runs: dict[Key, Run] = {}
        self.problems: list[str] = []
        self.tries = self.hits = self.starts = self.refusals = 0
        self.seen: dict[tuple[str, str], int] = {}
        # How often a kind was tried, and a group of kinds, and how often there was such a call.
        self.figures: dict[str, tuple[int, int]] = {}
        self.groups: dict[str, tuple[int, int]] = {}
        self.end = time.monotonic() + (options.seconds or 1e9)

    @property
    def is_over(self) -> bool:
        return bool(self.problems and not self.options.go_on) or time.monotonic() > self.end

    def drive(self, kind: Kind) -> Run:
        """The drive for a kind, a new one after something was wrong."""
        key = self.key(kind)
        if key not in self.runs:
            folder = Path(tempfile.mkdtemp(prefix="faults."))
            ways = [] if self.options.passthrough else ["--no-passthrough"]
            make = FirstRun if kind.at_first else Run
            self.runs[key] = make(folder, self.options.library, ways, kind)
            self.runs[key].prepare()
        return self.runs[key]

    @staticmethod
    def key(kind: Kind) -> Key:
        return kind.has_bucket, kind.at_end, kind.at_first

    def attempt(self, kind: Kind, number: int) -> bool:
        """One try; false if there was no such call."""
        is_hit = True
        try:
            run = self.drive(kind)
            is_hit = self.work(run, kind)(kind, number)
            if run.tries % 20 == 0:
                run.inspect(kills=run.tries % 40 == 0)
        except (Failure, OSError, ValueError, subprocess.TimeoutExpired,
                http.client.HTTPException) as failure:
            self.problems.append(f"{kind} {number}: {failure}"[:3000])
            print(f"FAILED: {self.problems[-1]}", flush=True)
            run = self.runs.get(self.key(kind))
            is_hit = run is not None and run.page.failed > 0
            self.finish(self.key(kind), keeps=True)
        for name, figures in (str(kind), self.figures), (kind.group, self.groups):
            tries, hits = figures.get(name, (0, 0))
            figures[name] = (tries + 1, hits + is_hit)
        return is_hit

    def work(self, run: Run, kind: Kind) -> Callable[[Kind, int], bool]:
        """How faults of a kind are tried."""
        if kind.kills:
            return (FirstKills if kind.at_first else Kills)(run, self.seed).attempt
        return run.try_start if kind.at_start else run.try_end if kind.at_end else run.try_one

    def go_through(self, kind: Kind) -> None:
        """Every call of a kind, until there are no more of them."""
        begun = time.monotonic()
        number, misses = self.options.first, 0
        while misses < 2 and not self.is_over:
            misses = 0 if self.attempt(kind, number) else misses + 1
            number += self.options.every
        tries, hits = self.figures.get(str(kind), (0, 0))
        print(f"{kind}: {hits} of {tries} tries failed, up to the call {number - 1} "
              f"({time.monotonic() - begun:.0f} s)", flush=True)

    def sample(self, wanted: list[Kind]) -> None:
        """One call of one kind after the other, for as long as there is time."""
        for kind in turns(wanted, self.random):
            if self.is_over:
                return
            begun = time.monotonic()
            number = self.random.randint(1, max(1, self.most(kind)))
            what = "failed" if self.attempt(kind, number) else "there was none"
            print(f"{kind} {number}: {what} ({time.monotonic() - begun:.1f} s)", flush=True)

    def most(self, kind: Kind) -> int:
        """About how many calls of a kind there are."""
        run = self.drive(kind)
        if str(kind) in run.most:
            return run.most[str(kind)]
        # What is left out in some rounds, or comes before the drive is usable.
        return 3 if kind.at_start and not kind.kills else run.usual.get(kind.name, 0) // 2

    def finish(self, key: Key, keeps: bool = False) -> None:
        """Ends a drive, after a last look if nothing was wrong."""
        run = self.runs.pop(key, None)
        if not run:
            return
        try:
            if not keeps:
                run.inspect(kills=True)
        except (Failure, OSError) as failure:
            self.problems.append(f"at the end: {failure}")
            print(f"FAILED: {self.problems[-1]}", flush=True)
            keeps = True
        finally:
            run.dispose()
        self.tries += run.tries
        self.hits += run.hits
        self.starts += run.starts
        self.refusals += run.refusals
        for seen, count in run.seen.items():
            self.seen[seen] = self.seen.get(seen, 0) + count
        if keeps or self.options.keep:
            print(f"kept: {run.folder}", flush=True)
        else:
            shutil.rmtree(run.folder)

    def proof(self) -> None:
        """A kind that never failed has proved nothing."""
        if self.hits == 0:
            self.problems.append("nothing failed")
        if self.options.first > 1:
            return
        for group, (tries, hits) in self.groups.items():
            if hits == 0 and tries > 2:
                self.problems.append(f"{group}: nothing failed in {tries} tries")
        for name, (tries, hits) in self.figures.items():
            if hits == 0 and tries > 1:
                self.problems.append(f"{name}: no call of that kind in {tries} tries")


def turns(wanted: list[Kind], generator: random.Random) -> Iterator[Kind]:
    """Kinds at random for ever, so that each group has its turn, and each place in it.

    Those of requests take ten times as long, and have every other turn.
    """
    places: dict[str, dict[str, list[Kind]]] = {}
    for kind in generator.sample(wanted, len(wanted)):
        places.setdefault(kind.group, {}).setdefault(kind.place, []).append(kind)
    groups = {name: itertools.cycle([itertools.cycle(each) for each in group.values()])
              for name, group in places.items()}
    for count in itertools.count():
        for name, group in groups.items():
            if count % 2 == 0 or not name.endswith(BUCKET):
                yield next(next(group))


def main() -> int:
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--passthrough", action="store_true")
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    wanted = [kind for kind in kinds() if not options.kinds
              or any(fnmatch(str(kind), name + "*") for name in options.kinds.split(","))]
    if options.list:
        print("\n".join(map(str, wanted)))
        return 0
    if not wanted:
        parser.error(f"--kinds {options.kinds}: there is no such kind; --list shows all")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    begun = time.monotonic()
    trials = Trials(options, seed)
    try:
        if options.seconds:
            trials.sample(wanted)
        else:
            for kind in wanted:
                if not trials.is_over:
                    trials.go_through(kind)
    finally:
        for key in list(trials.runs):
            trials.finish(key)
    trials.proof()
    seen = [f"{call} {name} {count}" for (call, name), count in sorted(trials.seen.items())]
    print(f"programs saw: {', '.join(seen)}")
    print("failed: " + ", ".join(f"{group} {hits} of {tries}"
                                 for group, (tries, hits) in trials.groups.items()))
    for problem in trials.problems:
        print(f"FAILED: {problem}")
    print(f"{'failed' if trials.problems else 'passed'} after {time.monotonic() - begun:.0f} s, "
          f"seed {seed}: {len(trials.figures)} kinds, {trials.tries} tries, in {trials.hits} of "
          f"which a call failed; {trials.starts} starts, {trials.refusals} refused")
    return 1 if trials.problems else 0


sys.exit(main())
