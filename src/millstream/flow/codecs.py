"""How the records of sources and sinks lie in the log."""

from __future__ import annotations

from millstream.codec import Codec, codec_of, key_codec
from millstream.flow.node import FromStream, Sink, Source


def key_codec_of(node: Source | Sink) -> Codec:
    """The codec of the keys."""
    return key_codec(node.key, _said(node, "key_codec"))


def value_codec_of(node: Source | Sink) -> Codec:
    """The codec of the values."""
    return codec_of(node.value, _said(node, "value_codec"))


def _said(node: Source | Sink, what: str) -> str | None:
    holder: object = node if isinstance(node, Sink) else node.origin
    found: str | None = getattr(holder, what) if isinstance(holder, FromStream | Sink) else None
    return found
