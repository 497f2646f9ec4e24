"""The command line; see `scripts/fault-test --help`."""

import argparse
import http.client
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crash.tree import Failure
from faults.page import BUCKET, Kind, kinds
from faults.run import Run

class Trials:
    """All faults that were asked for, on the same drives as long as nothing is wrong."""

    def __init__(self, options: argparse.Namespace, seed: int):
        self.options = options
        self.random = random.Random(seed)
        # One that sends at once and one that sends at its end, on a folder and on a bucket.
        self.runs: dict[tuple[bool, bool], Run] = {}
        self.problems: list[str] = []
        self.tries = self.hits = self.starts = self.refusals = 0
        self.seen: dict[tuple[str, str], int] = {}
        self.figures: dict[str, tuple[int, int]] = {}
        self.end = time.monotonic() + (options.seconds or 1e9)

    @property
    def is_over(self) -> bool:
        return bool(self.problems and not self.options.go_on) or time.monotonic() > self.end

    def drive(self, kind: Kind) -> Run:
        """The drive for a kind, a new one after something was wrong."""
        key = kind.area == BUCKET, kind.at_end
        if key not in self.runs:
            folder = Path(tempfile.mkdtemp(prefix="faults."))
            ways = [] if self.options.passthrough else ["--no-passthrough"]
            self.runs[key] = Run(folder, self.options.library, ways, kind)
            self.runs[key].prepare()
        return self.runs[key]

    def attempt(self, kind: Kind, number: int) -> bool:
        """One try; false if there was no such call."""
        is_hit = True
        try:
            run = self.drive(kind)
            work = run.try_start if kind.at_start else run.try_end if kind.at_end else run.try_one
            is_hit = work(kind, number)
            if run.tries % 20 == 0:
                run.inspect(kills=run.tries % 40 == 0)
        except (Failure, OSError, ValueError, subprocess.TimeoutExpired,
                http.client.HTTPException) as failure:
            self.problems.append(f"{kind} {number}: {failure}"[:3000])
            print(f"FAILED: {self.problems[-1]}", flush=True)
            self.finish((kind.area == BUCKET, kind.at_end), keeps=True)
        tries, hits = self.figures.get(str(kind), (0, 0))
        self.figures[str(kind)] = (tries + 1, hits + is_hit)
        return is_hit

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
        """One call of each kind after the other, for as long as there is time."""
        while not self.is_over:
            for kind in wanted:
                if self.is_over:
                    return
                usual = self.drive(kind).usual.get(kind.name, 0)
                # What is left out in some rounds, or comes before the drive is usable.
                most = 3 if kind.at_start else max(1, usual * 2 // 3)
                self.attempt(kind, self.random.randint(1, most))

    def finish(self, key: tuple[bool, bool], keeps: bool = False) -> None:
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
        for name, (tries, hits) in self.figures.items():
            if hits == 0 and tries > 1:
                self.problems.append(f"{name}: no call of that kind in {tries} tries")


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
              or any(str(kind).startswith(name) for name in options.kinds.split(","))]
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
            trials.random.shuffle(wanted)
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
    for problem in trials.problems:
        print(f"FAILED: {problem}")
    print(f"{'failed' if trials.problems else 'passed'} after {time.monotonic() - begun:.0f} s, "
          f"seed {seed}: {len(trials.figures)} kinds, {trials.tries} tries, in {trials.hits} of "
          f"which a call failed; {trials.starts} starts, {trials.refusals} refused")
    return 1 if trials.problems else 0


sys.exit(main())
