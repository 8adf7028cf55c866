"""Code blocks of the handbook's pages: commands to type, files to save, and those that a test cannot run, with their reason."""

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
FOR_DEVELOPERS = frozenset({"gateway", "engines", "reconcilers", "locking"})
_FENCE = re.compile(r"^( *)```(\{?[a-z]*\}?)$")
_NOT_RUN = re.compile(r"^ *<!-- not run: (.+) -->$")
_NAMED = re.compile(r"^# ([\w./-]+(?:\.[a-z]+|Dockerfile))$")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    not_run: str | None
    """Why."""

    @property
    def commands(self) -> list[str]:
        """Lines that begin with `$ `, continued by a backslash; the others are what they print."""
        joined = self.text.replace("\\\n", "")
        return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]

    @property
    def file(self) -> str | None:
        """Where to save it, if its first line says so."""
        named = _NAMED.match(self.text.partition("\n")[0])
        return named[1] if named and self.language != "console" else None


def pages() -> list[str]:
    """Those of the handbook that people wrote."""
    return [path.stem for path in sorted(DOCS.glob("*.md")) if path.stem not in FOR_DEVELOPERS]


def blocks_of(page: str) -> list[Block]:
    found: list[Block] = []
    begun: tuple[int, str, str] | None = None
    lines = (DOCS / f"{page}.md").read_text().splitlines()
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if begun is None:
            begun = (number, fence[1], fence[2])
            continue
        start, indent, language = begun
        text = "\n".join(one.removeprefix(indent) for one in lines[start + 1 : number]) + "\n"
        reason = _NOT_RUN.match(lines[start - 1]) if start else None
        found.append(Block(page, start + 1, language, text, reason[1] if reason else None))
        begun = None
    assert begun is None, f"{page}: a block does not end"
    return found
