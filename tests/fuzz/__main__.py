"""The fuzz check as a command: `python -m tests.fuzz --cases 20000 --seed 1`.

Each case is printed before it is looked at if `--tell` says so, so that one that ends the process is known
too. `--case 1234` looks at one of a seed only.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import nullcontext
from random import Random

from tests.crash.recorder import lay_out
from tests.fuzz.canaries import CANARIES
from tests.fuzz.damage import damaged
from tests.fuzz.forge import forged
from tests.fuzz.look import Looker
from tests.fuzz.template import Template, make
from tests.memory import memory_folder

CASE_SECONDS_MAX = 10
MEMORY_BYTES_MAX = 256 << 20  # more than before the first case
ADDRESSES_BYTES_MAX = 8 << 30  # more than before: a process that asks for this much is told no
FAILURES_MAX = 10
KINDS = ("damage", "forge")
DAMAGE_TOLD = ("told: Damaged", "told: ManifestLost", "told: WrongVersion")


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 if something else than an error of ours came of a case."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="of each kind (20000)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (1)")
    parser.add_argument("--kind", choices=KINDS, help="only these")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument(
        "--what", help="only such files, or such things in them: journal, manifest, message ..."
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no case is begun after these")
    parser.add_argument("--tell", action="store_true", help="tell each case")
    parser.add_argument("--canary", choices=sorted(CANARIES), help="take a protection away")
    options = parser.parse_args(arguments)
    numbers = range(options.cases) if options.case is None else range(options.case, options.case + 1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory_folder()) as folder:
        fuzz = Fuzz(folder, options.seed, options.what, tell=options.tell)
        with CANARIES[options.canary]() if options.canary else nullcontext():
            for number in numbers:
                for kind in [options.kind] if options.kind else KINDS:
                    fuzz.case(kind, number)
                enough = 1 if options.canary else FAILURES_MAX
                if time.monotonic() - began > options.seconds or len(fuzz.failures) >= enough:
                    break
    fuzz.show(time.monotonic() - began)
    return int(bool(fuzz.failures))


class Fuzz:
    """Runs cases, and keeps what came of them."""

    def __init__(self, folder: str, seed: int, what: str | None = None, *, tell: bool) -> None:
        """Make the template, and bound what the process may take."""
        self._folder = folder
        self._seed = seed
        self._what = what
        self._tell = tell
        self._template: Template = make(folder)
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._memory = _memory_bytes()
        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + ADDRESSES_BYTES_MAX, hard))
        signal.signal(signal.SIGALRM, _too_long)

    def case(self, kind: str, number: int) -> None:
        """One log."""
        random = Random(f"{self._seed} {kind} {number}")
        name = f"--seed {self._seed} --kind {kind} --case {number}"
        name += f" --what {self._what}" if self._what else ""
        if kind == "forge":
            image, told = forged(self._template, self._folder, random, self._what)
        else:
            image, told = damaged(self._template.image, random, self._what)
        if self._tell:
            sys.stdout.write(f"{name}: {told}\n")
            sys.stdout.flush()
        root = os.path.join(self._folder, "log")
        lay_out(image, root)
        self.counts[kind] += 1
        before = Counter(self.counts)
        signal.setitimer(signal.ITIMER_REAL, CASE_SECONDS_MAX)
        try:
            Looker(root, self._template, self.counts, forged=kind == "forge").look(random)
            self.counts[f"{kind} told"] += any(self.counts[w] > before[w] for w in DAMAGE_TOLD)
            self._judge_memory()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.failures.append(f"{name}: {told[:300]}: {_where(error)}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            shutil.rmtree(root)

    def _judge_memory(self) -> None:
        more = _memory_bytes() - self._memory
        if more > MEMORY_BYTES_MAX:
            self._memory += more
            raise MemoryError(f"{more >> 20} MB more than before")

    def show(self, seconds: float) -> None:
        """What came of it."""
        for failure in self.failures:
            print(f"failure: {failure}")
        for what, count in sorted(self.counts.items()):
            print(f"{what}: {count}")
        print(f"memory: {(_memory_bytes() - self._memory) >> 20} MB")
        print(f"seed {self._seed}, {seconds:.0f} s, failures: {len(self.failures)}")


def _memory_bytes() -> int:
    """The most that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _too_long(*_: object) -> None:
    raise TimeoutError(f"a case took more than {CASE_SECONDS_MAX} s")


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "millstream" in f.filename] or frames
    last = ours[-1]
    return f"{type(error).__name__} ({os.path.basename(last.filename)}:{last.lineno}): {str(error)[:300]}"


if __name__ == "__main__":
    sys.exit(main())
