"""The model machine: a flow's nodes, one record at a time, every legal choice open.

It shares the operators with engines, and nothing else. What is determined happens at once; what is
not waits in queues (see `World`), one for each node, key and way by which records came:

- how merge interleaves its branches under a key,
- how group interleaves the old keys that have one new key,
- which updates of an aggregate are coalesced,
- how records of one key that lie in several shards come together, and records of several keys where a
  stream of the flow's own is read without its keys,
- how the dead letters of several steps, in one stream and under one key, come together; and those of
  one step that comes after a merge and before any grouping: each shard's records are there by themselves.

Without `choosing` nothing waits: records go through in the order in which they are fed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.codec import key_codec, named, state_codec
from millstream.codec.same import apart, kept, not_kept
from millstream.errors import StepFailed, WrongType, shown
from millstream.flow.branch import Branch
from millstream.flow.codecs import key_codec_of, value_codec_of
from millstream.flow.failure import Origin, letter, step_failed, told
from millstream.flow.graph import Graph
from millstream.flow.node import DeadLetters, Group, Merge, Node, Pure, Sink, Source, Stateful
from millstream.flow.steps import Combine
from millstream.operators import meaning_of, pure
from millstream.operators.batches import run_batch
from millstream.testing.choices import letter_places
from millstream.testing.record import Out
from millstream.testing.world import EMIT, Meta, Move, World

Push: TypeAlias = Callable[[Meta, Any], None]

STEPS_MAX = 1_000_000  # of one run: a cycle that has not come to rest by then will not
DEPTH_MAX = 100  # steps that call each other; then one waits until they have returned


class Machine:
    """A flow, ready to run."""

    def __init__(
        self,
        graph: Graph,
        *,
        choosing: bool,
        lanes: bool = False,
        steps_max: int = STEPS_MAX,
        tables_only: bool = False,
    ) -> None:
        """Put it together. `lanes`: some key lies in several shards of an input.

        `tables_only`: of what is written only the latest values are of interest.
        """
        self.world = World()
        self._graph = graph
        self._choosing = choosing
        self._lanes = lanes
        self._tables_only = tables_only
        self._steps_max = steps_max
        self._later: deque[tuple[Push, Meta, Any]] = deque()
        self._depths: dict[Node, int] = {}
        for node in graph.nodes:
            self._depths[node] = 1 + max((self._depths[one] for one in node.upstream), default=0)
        self._letters = letter_places(graph)
        self._pushes: dict[Node, Push] = {}  # into a node
        self._goes_on: dict[int, Push] = {}  # from a place on
        self._let_go: dict[int, Push] = {}  # of updates that were held
        self._readers: dict[str, list[Push]] = {}  # they are given bytes
        for stream, (number, _) in self._letters.items():
            self._goes_on[number] = self._letter_box(stream)
        for node in reversed(graph.nodes):
            try:
                self._pushes[node] = self._made(node)
            except Exception as error:
                raise WrongType(f"the step '{node.label}' ({node.site}): {told(error)}") from error
        self._sources = {node: self._source(node) for node in graph.nodes if isinstance(node, Source)}
        for node in graph.nodes:
            if isinstance(node, Source) and node.read_stream is not None:
                self._readers.setdefault(node.read_stream, []).append(self._sources[node])
        self._own = {stream: self._readers.get(stream, []) for stream in graph.own_streams}

    # -- running

    def feed(self, source: Source, meta: Meta, data: bytes | None) -> None:
        """Put a record in; in a model that does not choose, it goes all the way."""
        if self._lanes:
            meta = meta._replace(lane=meta.shard)
        for read in self._readers.get(source.read_stream or "", [self._sources[source]]):
            read(meta, data)
        self.settle()

    def settle(self) -> None:
        """Let everything happen that is determined."""
        while self._later:
            push, meta, value = self._later.popleft()
            push(meta, value)

    def do(self, move: Move) -> None:
        """Make a choice, and let what follows happen."""
        self._count()
        meta, value = self.world.take(move)
        if move.label == EMIT:
            self._let_go[move.place[0]](meta, value)
        else:
            self._goes_on[move.place[0]](meta, value)
        self.settle()

    def finish(self, node: Stateful) -> None:
        """Close the step under each of its keys: what is left over comes out."""
        meaning = meaning_of(node.step)
        if meaning.finish is None:
            return
        codec = state_codec(node.state, self._graph.records)
        emit = self._emit(node)
        keys = key_codec(node.key)
        for (number, key_bytes), data in list(self.world.states.items()):
            if number == node.id:
                state, outputs = meaning.finish(codec.decode(data), None)
                self.world.states[number, key_bytes] = codec.encode(state)
                key = None if key_bytes is None else keys.decode(key_bytes)
                for value in outputs:
                    emit(Meta(key, key_bytes, 0, "(end)", 0, 0, 0), value)
        self.settle()

    def _count(self) -> None:
        self.world.moves += 1
        if self.world.moves > self._steps_max:
            own = ", ".join(f"'{stream}'" for stream, readers in self._own.items() if readers)
            raise StepFailed(
                f"flow '{self._graph.name}' has not come to rest after {self._steps_max:,} steps: does a "
                f"cycle ({own}) write something new for each record that it reads?",
                step=own,
                record="",
            )

    # -- putting nodes together

    def _emit(self, node: Node) -> Push:
        """From a node on to all that read from it."""
        pushes = [self._into(target, place) for target, place in self._graph.targets[node]]
        if len(pushes) == 1:
            return pushes[0]

        def emit(meta: Meta, value: Any) -> None:
            for push in pushes:
                push(meta, apart(value))

        return emit

    def _into(self, node: Node, place: int) -> Push:
        push = self._pushes[node]
        if not isinstance(node, Merge):
            if self._depths[node] % DEPTH_MAX:
                return push
            return lambda meta, value: self._later.append((push, meta, value))
        name = node.branches[place] if node.branches else None

        def into(meta: Meta, value: Any) -> None:
            named = value if name is None else Branch(name, value)
            if self._choosing:
                self.world.put((node.id, meta.key_bytes), (place, meta.lane), (meta._replace(lane=0), named))
            else:
                push(meta, named)

        return into

    def _made(self, node: Node) -> Push:
        match node:
            case Pure(operation="map_batches"):
                return self._batches(node)
            case Pure():
                return self._pure(node)
            case Group():
                return self._group(node)
            case Stateful(step=Combine()) if self._choosing and not (self._tables_only and self._ends(node)):
                return self._combine(node)
            case Stateful():
                return self._stateful(node, self._emit(node))
            case Sink():
                return self._sink(node)
            case Merge():
                self._goes_on[node.id] = self._emit(node)
                return self._goes_on[node.id]
            case _:
                return self._emit(node)

    def _ends(self, node: Node) -> bool:
        """Whether a table is only written after here, so that coalescing its updates changes no end."""
        return all(
            target.on_error == "fail"
            and (
                (isinstance(target, Sink) and not self._is_read(target.stream))
                or (isinstance(target, Pure) and target.operation == "map_table" and self._ends(target))
            )
            for target, _ in self._graph.targets[node]
        )

    def _is_read(self, stream: str) -> bool:
        return any(isinstance(node, Source) and node.read_stream == stream for node in self._graph.nodes)

    def _pure(self, node: Pure) -> Push:
        function, emit = pure(node), self._emit(node)
        if isinstance(node.on_error, DeadLetters):
            changing = function
            function = lambda key, value: changing(key, apart(value))  # noqa: E731 - the letter has it as it was

        def push(meta: Meta, value: Any) -> None:
            try:
                outputs = function(meta.key, value)
            except Exception as error:  # noqa: BLE001 - whatever the user's function raises
                self._failed(node, error, meta, value)
                return
            for output in outputs:
                emit(meta, output)

        return push

    def _batches(self, node: Pure) -> Push:
        emit = self._emit(node)

        def push(meta: Meta, value: Any) -> None:
            try:
                outputs = run_batch(node, [(meta.key, meta.timestamp, value)])
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(node, error, meta, value)
                return
            for _, timestamp, output in outputs:
                emit(meta._replace(timestamp=timestamp), output)

        return push

    def _group(self, node: Group) -> Push:
        function, emit, codec = node.function, self._emit(node), key_codec(node.key)
        self._goes_on[node.id] = emit
        choosing = self._choosing and (function is not None or self._lanes)
        known: dict[bytes | None, Any] = {None: None}
        copied = apart if isinstance(node.on_error, DeadLetters) else _same

        def push(meta: Meta, value: Any) -> None:
            old = meta.key_bytes
            if function is not None:
                try:
                    key = function(copied(value))
                    key_bytes = None if key is None else codec.encode(key)
                    if key_bytes is not None and key_bytes not in known:
                        known[key_bytes] = codec.decode(key_bytes)
                except Exception as error:  # noqa: BLE001 - as above
                    self._failed(node, error, meta, value)
                    return
                meta = meta._replace(key=known[key_bytes], key_bytes=key_bytes)
            if choosing:
                self.world.put((node.id, meta.key_bytes), (old, meta.lane), (meta._replace(lane=0), value))
            else:
                emit(meta, value)

        return push

    def _stateful(self, node: Stateful, emit: Push) -> Push:
        meaning = meaning_of(node.step)
        run, number = meaning.run, node.id
        if isinstance(node.on_error, DeadLetters):
            run = lambda state, value: meaning.run(state, apart(value))  # noqa: E731 - as above
        codec = state_codec(node.state, self._graph.records)
        encode, decode = codec.encode, codec.decode
        zero = kept(codec, meaning.zero)

        def push(meta: Meta, value: Any) -> None:
            states = self.world.states
            place = number, meta.key_bytes
            try:
                state, outputs = run(decode(states.get(place, zero)), value)
                data = encode(state)
                try:
                    again = decode(data)
                except WrongType:
                    what = f"the state became {shown(state)}, which is no {named(node.state)}"
                    raise WrongType(f"{what}: say its type with state=") from None
                if again != state or type(again) is not type(state):
                    not_kept(state, again)
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(node, error, meta, value)
                return
            states[place] = data
            for output in outputs:
                emit(meta, output)

        return push

    def _combine(self, node: Stateful) -> Push:
        """An aggregate: each update may be coalesced with the next, so it is held until it is let go."""
        emit = self._emit(node)

        def hold(meta: Meta, value: Any) -> None:
            self.world.hold((node.id, meta.key_bytes), (meta, value))

        run = self._stateful(node, hold)
        self._goes_on[node.id] = run
        self._let_go[node.id] = emit

        def push(meta: Meta, value: Any) -> None:
            self.world.put((node.id, meta.key_bytes), 0, (meta, value))

        return push

    def _sink(self, node: Sink) -> Push:
        stream = node.stream
        key_encode = key_codec_of(node).encode
        values = value_codec_of(node)
        known = values.kind is not Any
        own = self._is_read(stream)

        def read(meta: Meta, data: Any) -> None:
            self._count()
            for reader in self._own[stream]:
                reader(meta, data)

        def write(meta: Meta, value: Any) -> None:
            try:
                key_bytes = None if meta.key is None else key_encode(meta.key)
                data = None if value is None else values.encode(value)
                if data is not None and (known or own):
                    again = values.decode(data)
                    if own and again != value:
                        not_kept(value, again)
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(node, error, meta, value)
                return
            self.world.outputs.setdefault(stream, []).append(
                (key_bytes, Out(meta.key, value, meta.timestamp))
            )
            if own:
                seq = self.world.seqs[stream, key_bytes]
                self.world.seqs[stream, key_bytes] = seq + 1
                lane = key_bytes if self._lanes and key_bytes is not None else 0
                meta = Meta(key_bytes, key_bytes, meta.timestamp, stream, 0, seq, lane)
                self._later.append((read, meta, data))

        if not (self._choosing and self._lanes):
            return write
        self._goes_on[node.id] = write

        def push(meta: Meta, value: Any) -> None:
            self.world.put((node.id, meta.key_bytes), meta.lane, (meta._replace(lane=0), value))

        return push

    def _source(self, node: Source) -> Push:
        decode, emit = value_codec_of(node).decode, self._emit(node)
        key_decode, key_encode = key_codec_of(node).decode, key_codec(node.key).encode
        bare = node.key is type(None)
        known: dict[bytes | None, tuple[Any, bytes | None]] = {None: (None, None)}

        def read(meta: Meta, data: Any) -> None:
            try:
                found = known.get(None if bare else meta.key_bytes)
                if found is None:
                    key = key_decode(meta.key_bytes or b"")
                    found = known[meta.key_bytes] = key, key_encode(key)
                meta = meta._replace(key=found[0], key_bytes=found[1])
                value = None if data is None else decode(data)
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(node, error, meta, data)
                return
            emit(meta, value)

        return read

    # -- when something goes wrong

    def _failed(self, node: Node, error: Exception, meta: Meta, value: Any) -> None:
        """Do what the step's policy says; nothing of the record is left behind."""
        origin = Origin(meta.stream, meta.shard, meta.seq)
        if node.on_error == "fail":
            raise step_failed(node, error, origin, meta.key, value) from error
        self.world.skipped[node.label] += 1
        if isinstance(node.on_error, DeadLetters):
            found = letter(node, error, origin, value)
            number, writers = self._letters[node.on_error.stream]
            apart_by_shard = _is_after_merge(node)
            if self._choosing and (self._lanes or len(writers) > 1 or apart_by_shard):
                shard = (meta.stream, meta.shard) if apart_by_shard else ()
                label = node.id, meta.lane, *shard
                self.world.put((number, meta.key_bytes), label, (meta._replace(lane=0), found))
            else:
                self._goes_on[number](meta, found)

    def _letter_box(self, stream: str) -> Push:
        def write(meta: Meta, value: Any) -> None:
            out = Out(meta.key, value, meta.timestamp)
            self.world.outputs.setdefault(stream, []).append((meta.key_bytes, out))

        return write


def _is_after_merge(node: Node) -> bool:
    """Whether records come to a step by a merge, and no key has brought them together since."""
    return any(isinstance(one, Merge) or _is_after_merge(one) for one in node.upstream if not one.grouped)


def _same(value: Any) -> Any:
    return value
