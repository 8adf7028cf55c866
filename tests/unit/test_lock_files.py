"""What other users of this machine may not hold."""

import os
from pathlib import Path

import pytest

from moorage.entrypoints.foundation import _only_one, running_pid
from moorage.entrypoints.full_backup import _only_one as only_one_backup
from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.upgrade.journal import Journal
from moorage.kit.daemon import Daemon
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of an earlier version, whose files others may read."""
    (tmp_path / "run").mkdir()
    for name in ("up.lock", "backup.lock", "haproxy.lock"):
        (tmp_path / "run" / name).write_text("4711")
        (tmp_path / "run" / name).chmod(0o644)
    return tmp_path


def test_nobody_else_can_keep_it_from_starting(home: Path) -> None:
    settings = Settings(home=home)
    with (
        _only_one(settings),
        only_one_backup(settings),
        Daemon("haproxy", settings.run_dir).start_lock(),
        Daemon("postgres", settings.run_dir).start_lock(),
        Journal(Installation(root=home)).held(),
    ):
        locks = [*settings.run_dir.iterdir(), home / "upgrade.lock"]
        assert len(locks) == 5
        assert [path.name for path in locks if path.stat().st_mode & 0o077] == []
        assert running_pid(settings) == os.getpid()
        with pytest.raises(SetupError, match=f"pid {os.getpid()}"), _only_one(settings):
            pass
    assert running_pid(settings) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "haproxy.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), Daemon("haproxy", tmp_path).start_lock():
        pass
    assert not (tmp_path / "elsewhere").exists()
