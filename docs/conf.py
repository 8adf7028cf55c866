"""The handbook's build: `scripts/handbook build`. Sphinx reads the pages of this folder and those that the code writes into
`reference/`; what comes out is served at `/docs` by the installation itself (`src/moorage/console/handbook.py`)."""

import gzip
import re
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.application import Sphinx

project = "Moorage handbook"
author = "Moorage"
version = release = installed_version("moorage")

extensions = ["myst_parser"]
exclude_patterns = ["decisions", "screenshots"]
nitpicky = True
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "Moorage handbook"
html_short_title = "Moorage"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["handbook.css"]
html_search_scorer = str(Path(__file__).parent / "_templates/scorer.js")
# Addresses without an ending: /docs/tutorial, /docs/reference/settings.
html_link_suffix = ""
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_additional_pages = {"404": "404.html"}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# The console's colours (console/src/theme), and the machine's own fonts: nothing is fetched.
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1B5BD6", "color-brand-content": "#1B5BD6"},
    "dark_css_variables": {"color-brand-primary": "#82AEFF", "color-brand-content": "#82AEFF"},
}
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"

_COMPRESSED = {".html", ".js", ".css", ".svg"}
_TO_THE_REPOSITORY = re.compile(
    r"\[([^\]]+)\]\((?:decisions/|\.\./(?:[A-Z]+\.md|examples|bench|tests|console|src|deploy)\b)[^)]*\)"
)
_SCROLLS = re.compile(r'<pre(?=>)|<div class="table-wrapper[^"]*"')
_RELATIVE = re.compile(r'((?:href|src|action)=")(?![a-z]+:|/|#)')


def setup(app: Sphinx) -> None:
    app.connect("source-read", _leave_the_repository_out)
    app.connect("build-finished", _finish)


def _leave_the_repository_out(app: Sphinx, docname: str, source: list[str]) -> None:
    """Decisions and sources are for whoever reads the repository, where these links lead. Here they are their words alone."""
    source[0] = _TO_THE_REPOSITORY.sub(r"\1", source[0])


def _finish(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None:
        return
    built = Path(app.outdir)
    # The one page that is shown at any address, so its links cannot be relative.
    not_found = built / "404.html"
    not_found.write_text(_RELATIVE.sub(r"\1/docs/", not_found.read_text()))
    for path in built.rglob("*.html"):
        # What scrolls has to be reachable by keyboard.
        path.write_text(_SCROLLS.sub(r'\g<0> tabindex="0"', path.read_text()))
    for path in built.rglob("*"):
        if path.suffix in _COMPRESSED:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
