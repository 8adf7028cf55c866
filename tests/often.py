"""Each chosen test many times: `make prove-steady`. Loaded with `-p tests.often`; nothing else knows of it."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=50, help="how often each chosen test runs")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.fixturenames.append("_time_of_many")
    metafunc.parametrize("_time_of_many", range(metafunc.config.getoption("times")))
