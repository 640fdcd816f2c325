"""Codecs: values and keys as bytes, and back.

>>> from millstream.codec import codec_of
>>> codec_of(dict[str, int], "msgpack").decode(codec_of(dict[str, int], "msgpack").encode({"figs": 3}))
{'figs': 3}
"""

from millstream.codec.anything import Anything
from millstream.codec.codec import Codec, codec_of, key_codec, state_codec
from millstream.codec.kind import is_exact, named

__all__ = ["Anything", "Codec", "codec_of", "is_exact", "key_codec", "named", "state_codec"]
