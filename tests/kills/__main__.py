"""Kill as often as you like: `python -m tests.kills --kills 50 --seed 1`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.kills.driver import run


def main() -> None:
    """Run once; the exit code tells whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the log and the reports here")
    told = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        outcome = run(told.folder or Path(folder), kills=told.kills, seed=told.seed)
    for anomaly in outcome.anomalies[:50]:
        print(f"{anomaly.kind}: {anomaly.what}")
    print(f"seed {told.seed}, {time.monotonic() - began:.0f} s: {dict(outcome.counts)}")
    print(f"anomalies: {len(outcome.anomalies)}")
    sys.exit(bool(outcome.anomalies))


if __name__ == "__main__":
    main()
