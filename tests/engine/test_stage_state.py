"""The state of a page: chunks that split, a cache that is checked, and what was dropped is gone."""

from __future__ import annotations

from random import Random

import pytest

from millstream.engine.stage.state import CHUNK_BYTES, DIRECTORY, Cache, PageState
from millstream.errors import Damaged

PAGE = ("job", 1, 0)


def saved(kept: dict[int, bytes], cache: Cache, given: dict[bytes, bytes | None], step: str = "s") -> None:
    """Change some states, and save them."""
    state = PageState(kept, cache, PAGE)
    state.touch(list(given))
    for key, data in given.items():
        state.of(step).set(key, data)
    state.save()


def contents(kept: dict[int, bytes]) -> dict[tuple[str, bytes | None], bytes]:
    """All states there are."""
    return {(step, key): data for step, key, data in PageState(kept, Cache(), PAGE).everything()}


def test_many_states_are_in_many_small_chunks_and_all_are_found() -> None:
    kept: dict[int, bytes] = {}
    cache = Cache()
    chance = Random(1)
    model: dict[tuple[str, bytes | None], bytes] = {}
    for _ in range(60):
        given: dict[bytes, bytes | None] = {}
        for _ in range(200):
            key = b"%d" % chance.randrange(8_000)
            given[key] = None if chance.random() < 0.2 else chance.randbytes(chance.randrange(100))
        step = chance.choice(["one", "two"])
        saved(kept, cache if chance.random() < 0.8 else Cache(), given, step)
        for key, data in given.items():
            model.pop((step, key), None)
            if data is not None:
                model[step, key] = data
    assert contents(kept) == model
    sizes = [len(data) for number, data in kept.items() if number != DIRECTORY]
    assert len(sizes) > 20
    assert sum(sizes) / len(sizes) < 2 * CHUNK_BYTES
    state = PageState(kept, Cache(), PAGE)
    for (name, name_key), kept_data in list(model.items())[:500]:
        assert state.of(name).get(name_key) == kept_data


def test_an_epoch_writes_only_the_chunks_that_it_changes() -> None:
    kept: dict[int, bytes] = {}
    saved(kept, Cache(), {b"%d" % number: b"x" * 100 for number in range(5_000)})
    before = dict(kept)
    saved(kept, Cache(), {b"7": b"y"})
    assert {number for number in kept if kept[number] != before.get(number)} - {DIRECTORY} != set()
    assert len([number for number in kept if kept[number] != before.get(number)]) <= 3


def test_nothing_is_written_where_nothing_changed() -> None:
    kept: dict[int, bytes] = {}
    saved(kept, Cache(), {b"a": b"1"})
    before = dict(kept)
    saved(kept, Cache(), {b"a": b"1"})
    assert kept == before


def test_no_key_and_an_empty_key_are_two() -> None:
    kept: dict[int, bytes] = {}
    state = PageState(kept, Cache(), PAGE)
    state.of("s").set(None, b"none")
    state.of("s").set(b"", b"empty")
    state.save()
    again = PageState(kept, Cache(), PAGE)
    assert (again.of("s").get(None), again.of("s").get(b"")) == (b"none", b"empty")


def test_a_cache_of_another_version_is_not_used() -> None:
    kept: dict[int, bytes] = {}
    here, elsewhere = Cache(), Cache()
    saved(kept, here, {b"a": b"1"})
    saved(kept, elsewhere, {b"a": b"2"})
    assert PageState(kept, here, PAGE).of("s").get(b"a") == b"2"


def test_a_page_that_is_taken_out_of_the_cache_comes_back_only_when_it_is_saved() -> None:
    kept: dict[int, bytes] = {}
    cache = Cache()
    saved(kept, cache, {b"a": b"1"})
    failed = PageState(kept, cache, PAGE)
    failed.of("s").set(b"a", b"wrong")
    assert PageState(kept, cache, PAGE).of("s").get(b"a") == b"1"


def test_a_small_cache_forgets_the_oldest_page() -> None:
    cache = Cache(bytes_max=10)
    cache.give("a", 1, {0: b"123456"})
    cache.give("b", 1, {0: b"123456"})
    assert (cache.take("a", 1), cache.take("b", 1)) == ({}, {0: b"123456"})
    cache.give("b", 2, {0: b"12345678901"})
    assert cache.take("b", 2) == {}


def test_what_is_no_state_is_damage() -> None:
    with pytest.raises(Damaged):
        PageState({DIRECTORY: b"\xc1"}, Cache(), PAGE)
    with pytest.raises(Damaged):
        PageState({0: b"\xc1"}, Cache(), PAGE).of("s").get(b"a")
