"""Small files that everything hangs on: on a full disk what was there stays, and what is half is not taken for whole."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.engines.docker.daemon import _CHOSEN_FILE, _remember
from moorage.entrypoints.bootstrap import _write_addresses
from moorage.entrypoints.full_backup import _put_back
from moorage.gateway.agent import stable_gateway_id
from moorage.kit.settings import Settings


@contextmanager
def full_disk() -> Iterator[None]:
    """No byte more, in any file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_which_engine_has_the_replicas(tmp_path: Path) -> None:
    """Forgotten, another one would be taken, and the replicas left where they are."""
    settings = Settings(home=tmp_path)
    _remember(settings, "unix:///mine.sock")
    with pytest.raises(OSError, match="large"), full_disk():
        _remember(settings, "unix:///mine.sock")
    assert (tmp_path / _CHOSEN_FILE).read_text() == "unix:///mine.sock\n"


def test_who_a_gateway_is(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="large"), full_disk():
        stable_gateway_id(tmp_path)
    made = stable_gateway_id(tmp_path)
    assert made
    assert stable_gateway_id(tmp_path) == made
    # As an earlier version left it.
    (tmp_path / "gateway-id").write_text("")
    assert stable_gateway_id(tmp_path)


def test_where_the_operators_key_may_be_sent(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    _write_addresses(settings)
    before = (tmp_path / "addresses").read_text()
    with pytest.raises(OSError, match="large"), full_disk():
        _write_addresses(settings)
    assert (tmp_path / "addresses").read_text() == before


def test_a_key_that_is_put_back(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "secret-keys"
    source.write_text("a key\n")
    with pytest.raises(OSError, match="large"), full_disk():
        _put_back(source, target)
    assert not target.exists()
    assert _put_back(source, target)
    assert not _put_back(source, target), "it is there"
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("a key\n", 0o600)
