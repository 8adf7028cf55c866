"""`moor`, signed in to a server that plays the documented API."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from cli_server import SESSION_TOKEN, FakeMoorage, Moor, serving
from typer.main import get_command
from typer.testing import CliRunner, Result

from moorage_cli.app import app

command = cache(get_command)
"""Put together once: for each of a hundred tests it would take longer than the command itself."""


@pytest.fixture
def fake() -> Iterator[FakeMoorage]:
    with serving(FakeMoorage()) as started:
        yield started
        assert started.drift == [], "the API's description says otherwise"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "cli.toml"


@pytest.fixture
def moor(fake: FakeMoorage, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Moor:
    for name in ("MOORAGE_API_KEY", "MOORAGE_PROJECT", "MOORAGE_TOKEN", "MOORAGE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("typer.testing._get_command", command)
    monkeypatch.setenv("MOORAGE_CLI_CONFIG", str(config))
    monkeypatch.setenv("MOORAGE_HOME", str(tmp_path / "home"))
    config.write_text(f'url = "{fake.url}"\ntoken = "{SESSION_TOKEN}"\n')

    def run(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="moor")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.stderr
        return result

    return run
