"""The contract of a log: what every store does, and the conveniences made from that.

>>> import millstream
>>> with millstream.open("memory:") as log:
...     log.create("orders")
...     log.append("orders", b"two apples", key=b"ann").placed[0].first
0

Every store checks what it is given with the functions of `millstream.log.check`; the contract
tests see to it. What a store cannot do it raises as `Unsupported` and leaves out of `can`.
All methods may be called from several threads at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, Unpack

import pyarrow as pa

from millstream.clock import Clock
from millstream.keyhash import shard_of
from millstream.log.batch import DEFAULT_LIMITS, Batch, Limits
from millstream.log.can import Can, unsupported
from millstream.log.check import header_pairs
from millstream.log.commit import Append, Commit, Durability, FenceState, Receipt, Staged
from millstream.log.finding import Finding, Report
from millstream.log.group import Assignment, Place
from millstream.log.handle import Handle
from millstream.log.stream import Cleanup, Description, Retention, Settings
from millstream.record import HeadersLike

if TYPE_CHECKING:
    from millstream.log.consumer import Consumer
    from millstream.log.options import ConsumerOptions
    from millstream.log.producer import Producer, ProducerOptions


class Log(Handle, ABC):
    """Keeps streams."""

    scheme: ClassVar[str]
    can: ClassVar[frozenset[Can]]
    url: str  # where it is, without secrets
    clock: Clock

    # -- administration

    @abstractmethod
    def create(
        self,
        stream: str,
        *,
        shards: int = 1,
        value: pa.DataType | pa.Schema | None = None,
        codec: str | None = None,
        retention: Retention | None = None,
        cleanup: Cleanup | str = Cleanup.DELETE,
        tombstones_ms: int = 86_400_000,
        exist_ok: bool = False,
    ) -> None:
        """Make a stream. `value` None: bytes; an Arrow type or schema: a columnar stream.

        `StreamExists` if there is one, unless `exist_ok` and its type is the same.
        """

    @abstractmethod
    def settings(self, stream: str) -> Settings:
        """The stream's settings; `UnknownStream` if there is none. Cheap: it is asked often."""

    @abstractmethod
    def streams(self, pattern: str = "*") -> list[str]:
        """The names of the streams that match a shell pattern, sorted."""

    @abstractmethod
    def describe(self, stream: str) -> Description:
        """All there is to say of a stream."""

    @abstractmethod
    def alter(
        self,
        stream: str,
        *,
        shards: int | None = None,
        retention: Retention | None = None,
        cleanup: Cleanup | str | None = None,
        tombstones_ms: int | None = None,
    ) -> None:
        """Change settings. Shards can only be added, and keys then move between shards."""

    @abstractmethod
    def delete(self, stream: str) -> None:
        """Remove a stream and all that belongs to it."""

    @abstractmethod
    def trim(self, stream: str, shard: int, to_seq: int, *, force: bool = False) -> int:
        """Forget what lies before `to_seq`; give the first seq that is left.

        Raises `Pinned` if a job or group still needs some of it, unless `force`.
        """

    # -- records

    @abstractmethod
    def read(
        self,
        stream: str,
        shard: int,
        from_seq: int,
        limits: Limits = DEFAULT_LIMITS,
        *,
        history: int | None = None,
    ) -> Batch:
        """Committed records from `from_seq` on, at once: never past the end, never waiting.

        `history` is the one in which the caller learned of `from_seq`. Raises `SeqTrimmed`,
        `SeqPastEnd`, `HistoryChanged`, `Damaged`.
        """

    @abstractmethod
    def ends(self, stream: str) -> list[tuple[int, int]]:
        """For each shard the first seq it holds, and its committed end."""

    @abstractmethod
    def seek(self, stream: str, shard: int, timestamp: int) -> int:
        """The seq of the first record that is not older than this; the end if there is none."""

    @abstractmethod
    def wait(self, ends: Mapping[Place, int], timeout: float | None = None) -> bool:
        """Sleep until one of these shards ends after that, or until the time is over (False)."""

    @abstractmethod
    def commit(self, commit: Commit, durability: Durability | str = Durability.WRITTEN) -> Receipt:
        """Make everything in it visible together, or nothing."""

    @abstractmethod
    def stage(self, stream: str, shard: int, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Keep records durably but invisibly, until a commit names them; swept after a day."""

    # -- names that commit once

    @abstractmethod
    def take_over(self, name: str) -> int:
        """Raise the run of a fence's name, and give it: older runs are `Fenced` from now on."""

    @abstractmethod
    def fence(self, name: str) -> FenceState | None:
        """What is known of a name; None if it never committed and was never taken over."""

    # -- groups and pins

    @abstractmethod
    def offsets(self, group: str) -> dict[Place, int]:
        """A group's committed offsets."""

    @abstractmethod
    def heartbeat(
        self,
        group: str,
        member: str,
        streams: Sequence[str],
        *,
        lease: float,
        released: Sequence[Place] = (),
    ) -> Assignment:
        """Join a group, or stay in it for `lease` more seconds, and learn what to read.

        What is given back in `released` goes to others at once. A member that does not come back
        in time loses its shards, and the generations it had are refused from then on.
        """

    @abstractmethod
    def leave(self, group: str, member: str) -> None:
        """Leave a group: the others take over at once."""

    @abstractmethod
    def delete_group(self, group: str) -> None:
        """Forget a group's offsets and members."""

    @abstractmethod
    def pin(self, name: str, seqs: Mapping[Place, int]) -> None:
        """Keep everything from these seqs on; replaces what this name pinned before."""

    @abstractmethod
    def unpin(self, name: str) -> None:
        """Let go of all that this name pinned."""

    # -- upkeep

    @abstractmethod
    def merge(self, stream: str | None = None, *, report: Report | None = None) -> int:
        """Rewrite small batches as large ones; give how many batches there are fewer."""

    @abstractmethod
    def compact(self, stream: str | None = None, *, report: Report | None = None) -> int:
        """Keep the latest record of each key; give how many records went."""

    @abstractmethod
    def retain(self, stream: str | None = None) -> int:
        """Apply retention now; give how many records went."""

    @abstractmethod
    def verify(self, stream: str | None = None, *, report: Report | None = None) -> list[Finding]:
        """Read everything and compare it with its checksums; no finding: all is well."""

    @abstractmethod
    def backup(self, target: str, *, report: Report | None = None) -> None:
        """Copy the log, as it is at one moment, into an empty directory."""

    @classmethod
    def repair(cls, path: str, report: Report | None = None) -> list[Finding]:
        """Mend a damaged log that nobody has open: see `millstream.repair`."""
        del path, report
        raise unsupported(cls.scheme, Can.UPKEEP, cls.can)

    @abstractmethod
    def statistics(self) -> dict[str, int | float]:
        """Counts since the log was opened."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and locks. Closing twice is fine."""

    # -- made from the above

    def append(
        self,
        stream: str,
        value: object,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: HeadersLike | None = None,
        shard: int | None = None,
        durability: Durability | str = Durability.WRITTEN,
    ) -> Receipt:
        """Write one record in a commit of its own. For many, a producer is faster."""
        if shard is None:
            shards = self.settings(stream).shards
            shard = shard_of(key, shards) if shards > 1 and isinstance(key, bytes) else 0
        row = (
            self.clock.now_ms() if timestamp is None else timestamp,
            key,
            value,
            None if headers is None else header_pairs(headers),
        )
        return self.commit(Commit(records=(Append(stream, shard, (row,)),)), durability)

    def producer(self, stream: str, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer for a stream: see `millstream.log.producer`, and `ProducerOptions`."""
        from millstream.log.producer import Producer

        return Producer(self, stream, **options)

    def consumer(self, streams: str | Sequence[str] = (), **options: Unpack[ConsumerOptions]) -> Consumer:
        """A consumer of one stream, several, or a name pattern: see `Consumer`."""
        from millstream.log.consumer import Consumer

        return Consumer(self, streams, **options)

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Kind and place."""
        return f"<{type(self).__name__} {self.url}>"
