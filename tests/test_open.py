"""Opening a log by its URL, and the words for a URL that names none."""

import copy
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import millstream
from millstream.errors import (
    MillstreamError,
    MissingExtra,
    StoreFailed,
    UnknownScheme,
    UsageError,
    WrongType,
)
from millstream.log.file import log as file_log
from millstream.log.open import SCHEMES, Scheme


@pytest.mark.parametrize(
    "url", ["gopher:x", "", "orders", ":", "/etc/log", "memory:x", "file:", "FILE:x", "Memory:"]
)
def test_a_url_of_no_known_form_is_answered_with_the_known_ones(url: str) -> None:
    with pytest.raises(UnknownScheme, match=f"^'{url}' names no log: expected ") as refused:
        millstream.open(url)
    for scheme in SCHEMES.values():
        assert scheme.form in str(refused.value)


@pytest.mark.parametrize("url", [None, 5, b"memory:"])
def test_what_is_no_url_names_no_log(url: object) -> None:
    with pytest.raises(UnknownScheme, match="names no log"):
        millstream.open(url)  # type: ignore[arg-type]


def test_a_missing_package_is_answered_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = Scheme("nowhere:PATH", "no_such_package.log", "NowhereLog", extra="nowhere")
    monkeypatch.setitem(SCHEMES, "nowhere", absent)
    with pytest.raises(
        MissingExtra, match=r"a 'nowhere:' log needs the package 'no_such_package'"
    ) as refused:
        millstream.open("nowhere:x")
    assert "run pip install 'millstream[nowhere]'" in str(refused.value)


def test_a_module_of_ours_that_is_missing_is_not_taken_for_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES, "nowhere", Scheme("nowhere:PATH", "no_such_package", "NowhereLog"))
    with pytest.raises(ModuleNotFoundError) as failure:
        millstream.open("nowhere:x")
    assert not isinstance(failure.value, MillstreamError)


def test_every_scheme_is_named_by_its_form() -> None:
    for name, scheme in SCHEMES.items():
        assert scheme.form.startswith(f"{name}:")


@pytest.mark.parametrize("path", ["file", "file/log", "nowhere", "a\0b", "\ud800", "x" * 300])
def test_what_cannot_be_a_directory_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("there is nothing")
    url = f"file:{tmp_path}/{path}"
    for call in (millstream.open, millstream.repair):
        with pytest.raises(WrongType, match=r"is no path|cannot be a directory|holds no log"):
            call(url)
    with millstream.open(f"file:{tmp_path}/log") as log, pytest.raises(WrongType):
        log.backup(f"{tmp_path}/{path}")


def test_a_log_that_cannot_be_opened_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))

    def fail(*_: object, **__: object) -> NoReturn:
        raise StoreFailed("too many open files")

    for name in ("Books", "Finder", "SyncedMark", "Turnstile", "hold", "recover"):
        with monkeypatch.context() as patched:
            patched.setattr(file_log, name, fail)
            with pytest.raises(StoreFailed):
                millstream.open(f"file:{tmp_path}/log")
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize("url", ["memory:", "file:log"])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_no_handle_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, way: Callable[[object], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    with millstream.open(url) as log:
        log.create("orders")
        with log.producer("orders") as producer, log.consumer("orders") as consumer:
            for handle in (log, producer, consumer):
                with pytest.raises(UsageError, match="cannot be copied or pickled"):
                    way(handle)


def test_each_memory_log_is_a_new_one() -> None:
    with millstream.open("memory:") as log, millstream.open("memory:") as other:
        log.create("orders")
        assert (log.streams(), other.streams()) == (["orders"], [])
        assert repr(log) == "<MemoryLog memory:>"
