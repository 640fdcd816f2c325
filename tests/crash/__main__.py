"""The crash check as a command: `python -m tests.crash --runs 20000 --seed 1`.

The results go to standard output, how far it has come to standard error; the exit code is 1 if a
promise was broken, and with `--canary` if none was.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial

from tests.crash.canaries import CANARIES
from tests.crash.pool import in_order, work
from tests.crash.runner import STEPS, Result

VIOLATIONS_MAX = 50  # one is enough to fail; this many tell what is wrong
SEEDS = 1_000_000  # workloads of one seed; more than anybody has time for


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000, help="cuts, at least (20000)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (1)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each workload ({STEPS})")
    parser.add_argument("--workload", type=int, help="only the one that a violation names")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 8), help="at once")
    parser.add_argument("--dir", help="where to work; by default in memory")
    parser.add_argument("--canary", choices=sorted(CANARIES), help="take a protection away")
    options = parser.parse_args(arguments)
    one = partial(work, options.canary, options.dir, options.steps)
    began = time.monotonic()
    result = Result()
    if options.workload is not None:
        result.add(one(options.workload))
    else:
        for some in in_order(one, options.seed * SEEDS, options.processes):
            result.add(some)
            told = f"{result.runs:,} of {options.runs:,} runs, {len(result.violations)} violations"
            say(f"{told}, {time.monotonic() - began:.0f} s")
            enough = 1 if options.canary else VIOLATIONS_MAX
            if result.runs >= options.runs or len(result.violations) >= enough:
                break
    show(result, options.seed, time.monotonic() - began)
    return int(bool(result.violations) != bool(options.canary))


def say(line: str) -> None:
    """How far it has come."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def show(result: Result, seed: int, seconds: float) -> None:
    """What came of it."""
    for violation in result.violations[:VIOLATIONS_MAX]:
        print(f"violation: {violation}")
    print(f"seed        {seed}")
    print(f"runs        {result.runs:,} in {seconds:.0f} s")
    for title, counts in (("faults", result.faults), ("done", result.done)):
        for kind, count in sorted(counts.items()):
            print(f"{title:<11} {kind}: {count:,}")
    print(f"violations  {len(result.violations)}")


if __name__ == "__main__":
    sys.exit(main())
