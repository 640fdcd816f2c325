"""Golden files: texts that people see, kept in the repository and compared with what is made.

`MILLSTREAM_UPDATE=1 pytest` writes them anew; the change is then looked at like any other.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
UPDATE = "MILLSTREAM_UPDATE"


def assert_golden(path: str, made: str, section: str | None = None) -> None:
    """Compare a text with the file, or with the section of it between markers of that name.

    A section is what lies between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
    """
    file = ROOT / path
    known = file.read_text(encoding="utf-8") if file.exists() else ""
    wanted = made if section is None else with_section(known, section, made)
    if os.environ.get(UPDATE) == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wanted, encoding="utf-8")
    else:
        assert known == wanted, f"{path} is not what is made now: look at it, or run with {UPDATE}=1"


def with_section(text: str, name: str, made: str) -> str:
    """A text with another section of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    assert text.count(begin) == text.count(end) == 1, f"expected one {begin.strip()} and one {end.strip()}"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{made.strip()}\n\n{end}{after}"
