"""The command line; see `scripts/crash-test --help`."""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from crash import points, proof
from crash.runs import Run
from crash.tree import Failure


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--power", choices=["ext4", "xfs"])
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--reread", action="store_true")
    parser.add_argument("--no-passthrough", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--point", action="append", default=[], choices=points.names())
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)

    folder = Path(tempfile.mkdtemp(prefix="crash."))
    begun = time.monotonic()
    problems: list[str] = []
    run = None
    try:
        run = Run(folder, random.Random(seed), options.power, options.reread,
                  options.bucket, not options.no_passthrough)
        run.prepare()
        missed: list[str] = []
        if options.fail:
            missed = run.fail_each(list(options.point))
        elif options.workers:
            missed = run.outlive_each(options.kills, list(options.point), options.seconds)
        elif options.power:
            run.cut_often(options.kills)
        else:
            missed = run.kill_often(options.kills, list(options.point))
        run.finish()
        problems = proof.shortcomings(run, missed)
    except (Failure, OSError, subprocess.TimeoutExpired) as failure:
        traceback.print_exc()
        problems = [str(failure)]
    finally:
        if run:
            run.dispose()
        if options.keep or problems:
            print(f"kept: {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    for problem in problems:
        print(f"FAILED: {problem}", flush=True)
    if run is None:
        return 1
    result = "failed" if problems else "passed"
    print(f"{result} after {time.monotonic() - begun:.0f} s, seed {seed}: {proof.summary(run)}",
          flush=True)
    return 1 if problems else 0


sys.exit(main())
