"""Two lanes through the suite, the figures that tests print, and the names of those that are too long for `make test`.

With `pytest -n 2`, everything that needs the machine's Docker engine runs in one process, one test after the other;
the rest runs beside it, file by file.
"""

import re
from collections.abc import Callable

import pytest
from xdist.scheduler import LoadScopeScheduling

_NEEDS_ENGINE = re.compile(r"tests/(acceptance|engine|browser)/|[^:]*_docker\.py")
"""A browser stands in this lane too: it breaks off what it loads when a network interface comes or goes, and every
container that starts or ends is one (ERR_NETWORK_CHANGED)."""
LONG_S = 5
"""What `make test` allows one test."""


class Lanes(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return "engine" if _NEEDS_ENGINE.match(nodeid) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Callable[..., None]) -> Lanes:
    return Lanes(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        misplaced = "docker_host" in getattr(item, "fixturenames", ()) and not _NEEDS_ENGINE.match(
            item.nodeid
        )
        assert not misplaced, f"{item.nodeid} needs the engine: its file's name ends with _docker.py"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    _show_figures(terminalreporter)
    _name_unmarked(terminalreporter)


def _show_figures(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test printed is what it counted or measured: shown although it passed."""
    figures = [
        (report.nodeid, text.strip())
        for report in terminalreporter.stats.get("passed", ())
        for title, text in report.sections
        if title == "Captured stdout call" and text.strip()
    ]
    if figures:
        terminalreporter.section("figures")
    for nodeid, text in sorted(figures):
        terminalreporter.write_line(f"{nodeid}\n    " + text.replace("\n", "\n    "))


def _name_unmarked(terminalreporter: pytest.TerminalReporter) -> None:
    """Named and not failed: on a loaded machine every test may take that long."""
    slow = [
        report
        for report in terminalreporter.stats.get("passed", ())
        if report.when == "call" and report.duration > LONG_S and "long" not in report.keywords
    ]
    if slow:
        terminalreporter.section(f"longer than {LONG_S} s: make them shorter, or mark them `long`")
    for report in sorted(slow, key=lambda report: -report.duration):
        terminalreporter.write_line(f"{report.duration:6.1f} s  {report.nodeid}")
