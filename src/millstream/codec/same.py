"""Values that stay as they are: copies for each who may change them, and bytes that bring the same back.

>>> one = [1, 2]
>>> two = apart(one)
>>> two == one, two is one
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from millstream.codec.codec import Codec
from millstream.codec.kind import is_exact, is_fixed
from millstream.errors import WrongType, shown

_FIXED = {type(None), bool, int, float, str, bytes}


def apart(value: Any) -> Any:
    """A value that nobody else has: who changes it in place changes nothing for others."""
    if type(value) in _FIXED:
        return value
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - what cannot be copied, a generator perhaps, is shared
        return value


def copier(kind: Any, codec: Codec) -> Callable[[Any], Any] | None:
    """What makes values somebody's own, by a codec that is exact; None: nobody can change them."""
    if is_fixed(kind):
        return None
    if not is_exact(kind):
        return apart
    encode, decode = codec.encode, codec.decode
    return lambda value: decode(encode(value))


def kept(codec: Codec, value: Any) -> bytes:
    """A value as bytes; `WrongType` if it would come back as another."""
    data = codec.encode(value)
    again = codec.decode(data)
    if again != value or type(again) is not type(value):
        not_kept(value, again)
    return data


def not_kept(value: Any, again: Any) -> None:
    """Refuse what would come back as something else.

    NaN would not, though it is not equal to itself; and an int may become the float that it stands for.
    """
    if repr(value) != repr(again) and not (type(value) is int and type(again) is float and value == again):
        raise WrongType(
            f"{shown(value)} would come back as {shown(again)}: say its type, with state= or value="
        )
