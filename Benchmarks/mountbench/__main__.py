"""The command line; see `Benchmarks/run --help`."""

import argparse
import time
import tomllib
from pathlib import Path

from mountbench import datasets, document, report, runs, settings, workloads
from mountbench.cases import CASES, USUAL
from mountbench.disk import Disk


def main() -> None:
    parser = argparse.ArgumentParser(prog="mountbench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    commands.add_parser("data", help="make the data that is measured with")

    commands.add_parser("list", help="print the names of cases and peers")

    measuring = commands.add_parser("run", help="measure, and print the table")
    measuring.add_argument("peers", nargs="+", metavar="PEER", help="a name in peers.toml")
    measuring.add_argument("--cases", default=",".join(USUAL), help="separated by commas")
    measuring.add_argument("--repetitions", type=int, default=3)
    measuring.add_argument("--output", type=Path, help="results; an existing file is added to")

    documenting = commands.add_parser("document", help="write the dated report of results")
    documenting.add_argument("file", type=Path)
    documenting.add_argument("--made-by", required=True, help="the command that is shown")

    reporting = commands.add_parser("report", help="print the table of results")
    reporting.add_argument("files", nargs="+", type=Path)
    reporting.add_argument("--requests", metavar="PEER", help="what this peer asked of the cloud")

    working = commands.add_parser("work", help="one workload: what the others call")
    working.add_argument("name", choices=workloads.WORKLOADS)
    working.add_argument("arguments", nargs="*")

    options = parser.parse_args()
    if options.command == "data":
        datasets.make_all()
    elif options.command == "list":
        print("cases:", *CASES)
        print("peers:", *tomllib.loads(settings.PEERS_FILE.read_text()))
    elif options.command == "run":
        cases = options.cases.split(",")
        if unknown := set(cases) - set(CASES):
            parser.error(f"no such case: {', '.join(sorted(unknown))}")
        output = options.output or settings.RESULTS / time.strftime("%F-%H%M%S.json")
        with Disk():
            datasets.make_native()
            runs.run(options.peers, cases, options.repetitions, output)
        report.print_table([output])
    elif options.command == "document":
        print(document.write(options.file, options.made_by))
    elif options.command == "report":
        if options.requests:
            report.print_requests(options.files, options.requests)
        else:
            report.print_table(options.files)
    else:
        workloads.main(options.name, options.arguments)


main()
