"""Two lanes through the suite, and the figures that tests print.

Everything that needs the machine's Docker engine runs in one process, one test after the other; the rest shares
the other processes of `pytest -n`. Without `-n` nothing of this matters.
"""

import pytest

_ENGINE_ROOMS = ("tests/acceptance/", "tests/browser/", "tests/engine/")


@pytest.hookimpl(tryfirst=True)  # before the lanes are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(_ENGINE_ROOMS) or "docker_host" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("engine"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
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
