import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_IMODE

import pytest

from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.kit.whole_files import create_whole, write_whole


def test_what_was_there_is_replaced_with_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "addresses"
    before = os.umask(0o077)
    try:
        write_whole(path, "first\n", 0o600)
        write_whole(path, "second\n", 0o644)
    finally:
        os.umask(before)
    assert path.read_text() == "second\n"
    assert S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_finished_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    write_whole(path, "first\n", 0o600)

    def disk_is_full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_is_full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "second\n", 0o600)
    assert path.read_text() == "first\n"
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_who_create_one_at_once_one_does(tmp_path: Path) -> None:
    path = tmp_path / "keyring"

    def create(number: int) -> int | None:
        try:
            create_whole(path, f"{number}\n" * 10_000, 0o600)
        except FileExistsError:
            return None
        return number

    with ThreadPoolExecutor(16) as pool:
        (created,) = [one for one in pool.map(create, range(64)) if one is not None]
    assert path.read_text() == f"{created}\n" * 10_000
    assert list(tmp_path.iterdir()) == [path]


def test_the_databases_password_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one would be taken for the password at every start."""
    (tmp_path / "postgres").mkdir()
    server = EmbeddedPostgres(Settings(home=tmp_path))
    with monkeypatch.context() as patched:

        def ends(_: int) -> str:
            raise KeyboardInterrupt

        patched.setattr("secrets.token_urlsafe", ends)
        with pytest.raises(KeyboardInterrupt):
            server._password()
    assert len(server._password()) > 30
    assert server._password() == server._password()
