"""Runs cases on targets, in turns, and keeps every figure in a file."""

import json
import subprocess
import time
from pathlib import Path

from mountbench import machine, report, settings
from mountbench.cases import CASES, Bench, Target
from mountbench.simulator import Simulator
from mountbench.targets import Native, Peer, remove_leftovers


def run(peers: list[str], cases: list[str], repetitions: int, output: Path) -> None:
    """Measures; an existing file gets more repetitions.

    Peers take turns within a case, so that whatever else the machine does meanwhile meets all
    of them alike.
    """
    remove_leftovers(settings.ROOT)
    output.parent.mkdir(parents=True, exist_ok=True)
    with Simulator() as simulator:
        targets: list[Target] = [Native(), *(Peer(name, simulator) for name in peers)]
        record = json.loads(output.read_text()) if output.exists() else {"repetitions": []}
        record["peers"] = record.get("peers", {}) | {
            target.name: {"command": target.command, "version": target.version()}
            for target in targets
            if isinstance(target, Peer)
        }
        record["versions"] = machine.versions()
        for number in range(repetitions):
            repetition = {"when": time.strftime("%F %T"), "machine": machine.description()}
            repetition["busy"] = machine.busy(3)
            repetition["cases"] = {}
            record["repetitions"].append(repetition)
            for case in cases:
                for target in targets:
                    _run_one(case, target, simulator, repetition["cases"], number)
                    output.write_text(json.dumps(record, indent=1) + "\n")


def _run_one(case: str, target: Target, simulator: Simulator, into: dict, number: int) -> None:
    work, is_slow = CASES[case]
    if is_slow and not target.has_link or target.cases and case not in target.cases:
        return
    begin = time.monotonic()
    load = machine.description()["load"]
    simulator.set_link(False)
    simulator.reset()
    if isinstance(target, Peer):
        target.cloud.reset()
    try:
        simulator.set_link(is_slow)
        results = work(Bench(target, is_slow))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        results = {"error": {"error": repr(error)[:300]}}
    finally:
        target.stop()
        simulator.set_link(False)
    into.setdefault(case, {})[target.name] = results
    elapsed = time.monotonic() - begin
    failures = "".join(
        f", {name}: {error}"
        for name, result in results.items()
        if (error := report.failure(result))
    )
    print(f"{number} {case} {target.name} {elapsed:.0f} s, load {load:.1f}{failures}", flush=True)
