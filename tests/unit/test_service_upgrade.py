"""Whether an upgrade may begin and what it does, the file that says that one is under way, and what a file is."""

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from moorage.entrypoints.service.places import ROOT, VERSIONS, Installation
from moorage.entrypoints.service.units import ROLE_UNITS, SERVICE, units
from moorage.entrypoints.service.upgrade.abandoned import find_abandoned
from moorage.entrypoints.service.upgrade.back import restore_link
from moorage.entrypoints.service.upgrade.gate import environment_of
from moorage.entrypoints.service.upgrade.journal import Entry, Journal, Stage, UnderWayError
from moorage.entrypoints.service.upgrade.plan import (
    BackUp,
    CheckHealth,
    Facts,
    Migrate,
    PutThere,
    RemoveVersion,
    Renew,
    Room,
    Switch,
    TakeUnits,
    upgrade,
)
from moorage.entrypoints.service.upgrade.release import Kind, read_release
from moorage.kit.errors import SetupError

OLD, NEW = VERSIONS / "1.0.0", VERSIONS / "1.1.0"
FACTS = Facts(
    has_service=True,
    runs_from=OLD,
    current=OLD,
    running=Version("1.0.0"),
    target=Version("1.1.0"),
    target_folder=NEW,
    is_there=False,
    lacks=None,
    rooms=[Room(ROOT, 10 << 30, 1 << 30)],
    older_is_meant=False,
    is_encrypted=True,
    old_folders=[VERSIONS / "0.9.0"],
)


def test_what_is_done_and_in_which_order() -> None:
    steps = upgrade(FACTS)
    kinds = [type(step) for step in steps]
    assert kinds == [PutThere, TakeUnits, BackUp, Migrate, Switch, *[Renew] * 4, CheckHealth, RemoveVersion]
    renewed = [step.unit for step in steps if isinstance(step, Renew)]
    assert renewed[0] == SERVICE, "the roles stand on it"
    assert renewed[-1] == "moorage-api.service", "it writes what the others have to understand"
    assert set(renewed) == {SERVICE, *ROLE_UNITS}
    assert all(step.says.endswith(".") for step in steps)
    there = upgrade(replace(FACTS, is_there=True, old_folders=[]))
    assert [type(step) for step in there] == kinds[1:-1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(FACTS, has_service=False), "Moorage is not a service here, or part of the service"),
        (replace(FACTS, runs_from=NEW), "Run /opt/moorage/versions/1.0.0/bin/moor upgrade"),
        (replace(FACTS, target=Version("1.0.0")), "is at 1.0.0 already"),
        (replace(FACTS, target=Version("1.0.0rc1")), "is older than 1.0.0, which runs. Add --older"),
        (replace(FACTS, lacks="it needs Python ==3.13.*."), "does not fit this machine: it needs Python"),
        (replace(FACTS, rooms=[Room(ROOT, 1 << 30, 1 << 30)]), "1024 MiB free, .* may need 1536 MiB"),
    ],
)
def test_what_keeps_it_from_beginning(changed: Facts, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        upgrade(changed)


def test_older_is_done_when_it_is_meant() -> None:
    assert upgrade(replace(FACTS, target=Version("0.9"), older_is_meant=True))


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    here = Installation(root=tmp_path)
    for name in ("1.0.0", "1.1.0"):
        (here.versions / name).mkdir(parents=True)
    here.current.symlink_to(here.versions / "1.0.0")
    return here


def entry_of(installation: Installation, stage: Stage = Stage.SWITCHING) -> Entry:
    return Entry(stage, installation.versions / "1.0.0", installation.versions / "1.1.0", made=True)


def test_the_journal_is_there_or_not(installation: Installation) -> None:
    journal = Journal(installation)
    assert journal.read() is None
    for stage in Stage:
        journal.write(entry_of(installation, stage))
        assert journal.read() == entry_of(installation, stage)
    journal.remove()
    journal.remove()
    assert journal.read() is None


def test_one_process_at_a_time_and_what_it_started(installation: Installation) -> None:
    journal = Journal(installation)
    journal.write(entry_of(installation))
    with journal.held():
        with pytest.raises(UnderWayError), journal.held():
            pass
        with find_abandoned(installation) as found:
            assert found is None, "somebody works on it"
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with find_abandoned(installation) as found:
            assert found is None, "a migration of it still runs"
    finally:
        child.kill()
        child.wait()
    with find_abandoned(installation) as found:
        assert found == entry_of(installation)
    journal.remove()
    with find_abandoned(installation) as found:
        assert found is None


def test_the_link_leads_back_however_far_it_was(installation: Installation) -> None:
    entry = entry_of(installation)
    restore_link(installation, entry)
    assert installation.current.readlink() == entry.before
    for has_way_back in (True, False):
        installation.current.unlink()
        installation.current.symlink_to(entry.after)
        if has_way_back:
            installation.way_back.symlink_to(entry.before)
        restore_link(installation, entry)
        assert installation.current.readlink() == entry.before
        assert not installation.way_back.is_symlink()


def test_a_process_says_which_version_it_is_of() -> None:
    command = [sys.executable, "-c", "input(0)"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"0", "it runs"
        assert environment_of(process.pid) == Path(sys.executable).parent.parent
    finally:
        process.communicate(b"\n")
    assert environment_of(process.pid) is None


def test_the_keeper_can_be_told_to_go_on_as_another_version() -> None:
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in units()[SERVICE]


def wheel(folder: Path, name: str = "moorage", python: str = ">=3.11", *, locked: bool = True) -> Path:
    file = folder / f"{name}-{locked}-1.1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as packed:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.1.0\nRequires-Python: {python}\n"
        packed.writestr("moorage-1.1.0.dist-info/METADATA", metadata)
        if locked:
            packed.writestr("moorage/shipped/requirements-run.lock", "")
    return file


def test_a_wheel_is_known_by_its_content(tmp_path: Path) -> None:
    renamed = wheel(tmp_path).rename(tmp_path / "download")
    release = read_release(renamed)
    assert (release.kind, release.version, release.lacks()) == (Kind.WHEEL, Version("1.1.0"), None)
    assert "it needs Python >=3.99" in str(read_release(wheel(tmp_path, python=">=3.99")).lacks())


def test_a_bundle_says_which_python_it_is_for(tmp_path: Path) -> None:
    file = tmp_path / "bundle"
    for python, fits in ((f"{sys.version_info[0]}.{sys.version_info[1]}", True), ("3.99", False)):
        (tmp_path / "python").write_text(python)
        with tarfile.open(file, "w") as archive:
            archive.add(wheel(tmp_path), "moorage-1.1.0-py3-none-any.whl")
            archive.add(tmp_path / "python", "python")
        release = read_release(file)
        assert (release.kind, release.version) == (Kind.BUNDLE, Version("1.1.0"))
        assert (release.lacks() is None) is fits


def test_what_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    with tarfile.open(tmp_path / "archive", "w") as archive:
        archive.add(tmp_path / "text", "text")
    (tmp_path / "cut").write_bytes(wheel(tmp_path).read_bytes()[:-40])
    for file, words in (
        (tmp_path / "nothing", "Cannot read"),
        (tmp_path / "text", "is neither a wheel"),
        (tmp_path / "archive", "not a bundle"),
        (tmp_path / "cut", "neither|damaged"),
        (wheel(tmp_path, name="requests"), "is a wheel of requests"),
        (wheel(tmp_path, locked=False), "not one that `make wheel`"),
    ):
        with pytest.raises(SetupError, match=words):
            read_release(file)
