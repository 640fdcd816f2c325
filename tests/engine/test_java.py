"""The Java that Spark runs on: which one is taken, what is said when there is none, and that it starts."""

import os
import subprocess
from pathlib import Path

import pytest

from millstream.engine.spark.java import (
    HOME,
    INCUBATOR,
    SECURITY_ACTION,
    Java,
    environment,
    find_java,
    version_in,
    version_of,
    wheel_java,
)
from millstream.errors import MissingExtra


def fake(home: Path, version: str) -> Path:
    """A program that says what Java would; gives its path."""
    return script(home, f"echo 'openjdk version \"{version}\"' >&2")


def script(home: Path, line: str) -> Path:
    java = home / "bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{line}\n")
    java.chmod(0o755)
    return java


def on_path(java: Path) -> dict[str, str]:
    return {"PATH": str(java.parent)}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.2" 2024-01-16', 21),
        ("command not found", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(text: str, version: int | None) -> None:
    assert version_in(text) == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, path = fake(tmp_path / "home", "21.0.1"), fake(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), **on_path(path)}
    assert find_java(environ, None) == Java(home, 21)


def test_the_path_comes_before_the_wheel(tmp_path: Path) -> None:
    path, wheel = fake(tmp_path / "path", "17.0.1"), fake(tmp_path / "wheel", "25")
    assert find_java(on_path(path), wheel) == Java(path, 17)


def test_the_wheel_is_taken_where_the_system_has_none_or_an_old_one(tmp_path: Path) -> None:
    old, wheel = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "wheel", "25")
    broken = script(tmp_path / "broken", "exit 1")
    assert find_java({}, wheel) == Java(wheel, 25)
    assert find_java(on_path(old), wheel) == Java(wheel, 25)
    assert find_java(on_path(broken), wheel) == Java(wheel, 25)
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere")}, wheel) == Java(wheel, 25)


def test_without_any_the_error_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"and here is no java: run pip install 'millstream\[spark\]'"):
        find_java({}, None)


def test_an_old_one_is_refused_in_words(tmp_path: Path) -> None:
    old = fake(tmp_path / "old", "1.8.0_392")
    with pytest.raises(MissingExtra, match=r"Java 17 or newer.*old/bin/java is Java 8.*millstream\[spark\]"):
        find_java(on_path(old), None)


def test_our_own_script_is_not_taken_for_a_java(tmp_path: Path) -> None:
    wheel = fake(tmp_path, "25")
    assert find_java({"JAVA_HOME": str(HOME)}, wheel) == Java(wheel, 25)


def test_a_file_that_is_no_program_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None
    (tmp_path / "java").write_text("text")
    assert version_of(tmp_path / "java") is None


def test_the_script_keeps_back_what_it_is_told_and_nothing_else(tmp_path: Path) -> None:
    echo = script(tmp_path / "a folder", 'for each; do echo "$each"; done')
    given = ["-cp", "a b", INCUBATOR, "", "*", SECURITY_ACTION, INCUBATOR]

    def passed(version: int) -> list[str]:
        environ = {**os.environ, **environment(Java(echo, version))}
        command = [str(HOME / "bin/java"), *given]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    assert passed(17) == ["-cp", "a b", "", "*", SECURITY_ACTION]
    assert passed(25) == ["-cp", "a b", "", "*"]


def test_the_wheels_java_starts_without_a_warning() -> None:
    java = find_java({}, wheel_java())
    environ = {"PATH": "/usr/bin:/bin", **environment(java)}
    command = [str(HOME / "bin/java"), INCUBATOR, SECURITY_ACTION, "--version"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"openjdk {java.version}.")
    assert done.stderr == ""
