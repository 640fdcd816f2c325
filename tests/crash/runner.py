"""Every cut of a workload: at each call, what is unsynced lost or mixed; kills; cuts of the recovery too."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from millstream.log.file.mark import NAME as MARK
from tests.crash.check import Wanted, check, check_flipped, flipped, judge
from tests.crash.events import Event, Image, Machine, Write
from tests.crash.recorder import lay_out
from tests.crash.workload import Trace, Workload, small_limits
from tests.memory import memory_folder

STEPS = 30
STEPS_AGAIN = 4  # after a cut that is itself cut
AGAIN_EVERY = 80  # calls


@dataclass
class Result:
    """What came of some runs."""

    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Put both together."""
        self.runs += other.runs
        self.faults += other.faults
        self.done += other.done
        self.violations += other.violations


class Runner:
    """Runs one workload, and cuts it."""

    def __init__(self, folder: str, seed: int, *, violations_max: int = 20) -> None:
        """Take a folder to work in."""
        self._folder = folder
        self._seed = seed
        self._random = Random(seed)
        self._made = 0
        self._violations_max = violations_max
        self.result = Result()

    def run(self, steps: int = STEPS) -> Result:
        """Do it."""
        with small_limits():
            root = self._new_root()
            os.mkdir(root)
            workload = Workload(root, self._seed, machine=Machine(), boot="boot-0", durable=True)
            try:
                trace = workload.run(steps)
            finally:
                workload.stop()
                shutil.rmtree(root)
            self.result.done += trace.done
            self._cut_everywhere(trace, None, depth=0, label=f"workload {self._seed}")
        return self.result

    def _cut_everywhere(self, trace: Trace, before: Wanted | None, *, depth: int, label: str) -> None:
        machine = trace.start.copy()
        lost: tuple[Image, int] | None = None
        for count in range(len(trace.events) + 1):
            if len(self.result.violations) >= self._violations_max:
                return
            if count:
                machine.apply(trace.events[count - 1])
            coming = trace.events[count] if count < len(trace.events) else None
            here = f"{label}, call {count}"
            wanted = Wanted.of(trace, count, killed=False, before=before)
            image = machine.durable()
            state = (image, wanted.steps[0].end)
            if state != lost:
                lost = state
                self.result.faults["all unsynced lost"] += 1
                self._check(image, trace, wanted, f"{here}, lost")
            self._check(self._mixed(machine, coming), trace, wanted, f"{here}, mixed")
            if self._random.random() < 0.3:
                image = self._killed(machine, coming)
                wanted_killed = Wanted.of(trace, count, killed=True, before=before)
                self._check(image, trace, wanted_killed, f"{here}, killed", killed=True)
            # The mark may have gone with the last power cut; who has opened the log has written it anew.
            if count >= trace.steps[0].end and self._random.random() < 0.05:
                image = machine.durable()
                marks = {name: data for name, data in machine.now().files.items() if name == MARK}
                self._check_flipped(Image({**image.files, **marks}, image.folders), trace, wanted, here)
            if depth < 2 and self._random.random() < 1 / AGAIN_EVERY:
                self._cut_again(trace, count, machine, wanted, depth=depth, label=here, before=before)

    def _mixed(self, machine: Machine, coming: Event | None) -> Image:
        """The call that is under way may have come some way already."""
        under_way = machine.copy()
        if coming is not None and isinstance(coming, Write):
            under_way.apply(coming)
        return under_way.cut(self._random, self.result.faults)

    def _killed(self, machine: Machine, coming: Event | None) -> Image:
        self.result.faults["killed"] += 1
        stopped = machine.copy()
        if isinstance(coming, Write) and self._random.random() < 0.5:
            self.result.faults["killed in a write"] += 1
            data = coming.data[: self._random.randint(0, len(coming.data))]
            stopped.apply(Write(coming.file, coming.position, data))
        return stopped.now()

    def _check(self, image: Image, trace: Trace, wanted: Wanted, label: str, *, killed: bool = False) -> None:
        """Lay an image out, and look for the promises."""
        root = self._new_root()
        lay_out(image, root)
        boot = trace.boot if killed else trace.boot + "+"
        self.result.runs += 1
        try:
            back = check(root, boot, wanted, cut=not killed, fold=self._random.random() < 0.3)
            self.result.faults["something taken back"] += back
        except Exception as error:  # noqa: BLE001 - whatever comes out of a log here is a violation
            self.result.violations.append(f"{label}: {_told(error)}")
        finally:
            shutil.rmtree(root)

    def _check_flipped(self, image: Image, trace: Trace, wanted: Wanted, label: str) -> None:
        """Not a power cut: a disk that gives back something else than what was synced."""
        damaged = flipped(image, self._random)
        if damaged is None:
            return
        root = self._new_root()
        lay_out(damaged, root)
        self.result.runs += 1
        self.result.faults["bit of synced bytes flipped"] += 1
        try:
            told = check_flipped(root, trace.boot + "+", wanted)
            self.result.faults["flipped bit told"] += told
        except Exception as error:  # noqa: BLE001 - as above
            self.result.violations.append(f"{label}, flipped: {_told(error)}")
        finally:
            shutil.rmtree(root)

    def _cut_again(
        self,
        trace: Trace,
        count: int,
        machine: Machine,
        wanted: Wanted,
        *,
        depth: int,
        label: str,
        before: Wanted | None,
    ) -> None:
        """Open what a cut or a kill has left, go on, and cut that everywhere."""
        killed = self._random.random() < 0.4
        if killed:
            start, boot = machine.copy(), trace.boot
            wanted = Wanted.of(trace, count, killed=True, before=before)
        else:
            start, boot = Machine.of(self._mixed(machine, None)), trace.boot + "+"
        root = self._new_root()
        lay_out(start.now(), root)
        label += f", {'killed' if killed else 'cut'} and opened"
        seed = self._random.randrange(1 << 30)
        try:
            workload = Workload(root, seed, machine=start, boot=boot, durable=not killed)
            try:
                judge(workload.view, wanted)
                following = workload.run(STEPS_AGAIN)
            finally:
                workload.stop()
        except Exception as error:  # noqa: BLE001 - as above
            self.result.violations.append(f"{label}: {_told(error)}")
            return
        finally:
            shutil.rmtree(root)
        self.result.faults["cut again"] += 1
        # What was acknowledged before a kill and not promised for a power cut may go with the next one.
        kept = Wanted.of(trace, count, killed=False, before=before) if killed else wanted
        self._cut_everywhere(following, kept, depth=depth + 1, label=label)

    def _new_root(self) -> str:
        self._made += 1
        return os.path.join(self._folder, f"log-{self._made}")


def _told(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({os.path.basename(last.filename)}:{last.lineno}): {error}"


def run_workload(folder: str | None, seed: int, steps: int = STEPS) -> Result:
    """All cuts of one workload, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="crash-", dir=folder or memory_folder()) as own:
        return Runner(own, seed).run(steps)
