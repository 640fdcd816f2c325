"""Pure steps: what each makes of one key and value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from millstream.flow.node import Pure

Outputs: TypeAlias = Callable[[Any, Any], Iterable[Any]]  # of a key and a value


def pure(node: Pure) -> Outputs:
    """The values that a record becomes; what `map_batches` means, the caller knows."""
    function: Any = node.function

    def map_table(_: Any, value: Any) -> tuple[Any]:
        return (None if value is None else function(value),)

    def collect(_: Any, value: Any) -> tuple[Any, ...]:
        found = function(value)
        return () if found is None else (found,)

    meanings: dict[str, Outputs] = {
        "map": lambda _, value: (function(value),),
        "map_table": map_table,
        "flat_map": lambda _, value: list(function(value)),
        "filter": lambda _, value: (value,) if function(value) else (),
        "collect": collect,
        "flatten": lambda _, value: list(value),
        "with_key": lambda key, value: ((key, value),),
    }
    return meanings[node.operation]
