"""What a run has shown, and why it may have shown nothing."""

from crash import points, synced, work
from crash.runs import Run


def shortcomings(run: Run, missed: list[str]) -> list[str]:
    """Why a run has proved nothing, or less than it should."""
    lines = []
    if run.kills + len(run.hits) == 0:
        lines.append("nothing was ended")
    if missed:
        lines.append("never reached: " + ", ".join(missed))
    if run.kills >= run.many or run.tolerates_errors:
        lines += [f"nothing was acknowledged to {load.name}"
                  for load in run.workloads if load.acknowledged == 0]
        lines += unproved_by_cuts(run) if run.disk else []
    elif all(load.acknowledged == 0 for load in run.workloads):
        lines.append("nothing was acknowledged")
    if run.drive.aborts:
        lines.append(f"{run.drive.aborts} connections had to be aborted")
    return lines


def unproved_by_cuts(run: Run) -> list[str]:
    """What no power failure has shown anything about."""
    lines = [f"no {what} that was flushed was compared"
             for what, number in compared(run).items() if number == 0]
    for load in run.workloads:
        if isinstance(load, synced.Synced):
            lines += [f"nothing was acknowledged to {manner}"
                      for manner, number in load.counts.items() if number == 0]
    return lines


def compared(run: Run) -> dict[str, int]:
    """How often what a flush keeps beside bytes was compared after a power failure."""
    trees = [load.tree.compared for load in run.workloads if isinstance(load, work.Treelike)]
    return {what: sum(tree[what] for tree in trees) for what in trees[0]}


def summary(run: Run) -> str:
    """What was ended, and what was acknowledged before."""
    loads = ", ".join(f"{load.name} {load.acknowledged}" for load in run.workloads)
    text = (f"{run.kills} ends, {sum(run.hits.values())} of them at {len(run.hits)} of "
            f"{len(points.names())} points and {run.moments} at random moments; acknowledged: "
            f"{loads}; ")
    if run.disk:
        kept = ", ".join(f"{what} {number}" for what, number in compared(run).items())
        text += f"kept over cuts: {kept}; "
    return text + f"{run.drive.lingering} daemons lingered, {run.drive.aborts} aborts"
