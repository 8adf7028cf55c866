"""The handbook as it is served: built if it is not, and read page by page."""

import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAGES = REPOSITORY / "src/moorage/console/dist-handbook"


def build_handbook() -> None:
    """Does nothing where `make test` has just built it."""
    done = subprocess.run(
        ["scripts/handbook", "build"], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass
class Page(HTMLParser):
    """What of a page can be wrong."""

    title: str = ""
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    """Scripts, styles, pictures: what a browser fetches by itself."""
    inline: list[str] = field(default_factory=list)
    """What the content security policy forbids."""

    def __post_init__(self) -> None:
        super().__init__()
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._within = tag
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if tag in ("a", "form"):
            self.links += [str(given[name]) for name in ("href", "action") if given.get(name)]
        elif tag in ("script", "img", "iframe", "link"):
            self.loaded += [str(given[name]) for name in ("src", "href") if given.get(name)]
        if tag == "script" and not given.get("src"):
            self.inline.append("<script>")
        self.inline += [f"{tag} {name}" for name in given if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        # Pictures within the page have titles too.
        if self._within == "title" and not self.title:
            self.title = data


def read_pages() -> dict[str, Page]:
    """By address below `/docs/`, as a link would name it; the first page is empty."""
    found: dict[str, Page] = {}
    for path in sorted(PAGES.rglob("*.html")):
        page = Page()
        page.feed(path.read_text())
        found[path.relative_to(PAGES).with_suffix("").as_posix()] = page
    return found
