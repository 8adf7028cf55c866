"""Tests that need a real Kubernetes cluster: `make test-cluster` alone runs them, and whoever runs others is told that they did not."""

import os
from collections.abc import Iterator

import pytest

WANTED = os.environ.get("MOORAGE_TEST_CLUSTER") == "1"
_left_out = pytest.StashKey[int]()
_lacking = pytest.StashKey[str]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    of_cluster = [item for item in items if item.get_closest_marker("cluster") is not None]
    if not of_cluster:
        return
    because = "" if WANTED else "make test-cluster runs them"
    if WANTED:
        from tests.kubernetes.real_cluster import lacking, programs_folder

        if names := lacking():
            because = f"no {', '.join(names)} in {programs_folder()} (MOORAGE_TEST_KUBERNETES)"
    if because:
        items[:] = [item for item in items if item not in set(of_cluster)]
        config.hook.pytest_deselected(items=of_cluster)
        config.stash[_left_out], config.stash[_lacking] = len(of_cluster), because


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Iterator[None]:
    yield
    if _left_out in config.stash:
        terminalreporter.section("KUBERNETES", sep="!", yellow=True)
        count, because = config.stash[_left_out], config.stash[_lacking]
        terminalreporter.line(f"0 of {count} tests ran against a real cluster: {because}.")
    elif not WANTED and config.pluginmanager.hasplugin("dsession"):  # those who collect tell nobody
        terminalreporter.line("KUBERNETES: nothing ran against a real cluster: make test-cluster does.")
    elif WANTED:
        terminalreporter.line("KUBERNETES: all of it ran against a real cluster.")
