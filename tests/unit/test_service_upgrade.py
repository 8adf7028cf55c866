"""Whether an upgrade may begin and what it does, the file that says that one is under way, and what a file is."""

import asyncio
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from moorage.entrypoints.service.places import ROOT, VERSIONS, Installation
from moorage.entrypoints.service.units import ROLE_UNITS, SERVICE, units
from moorage.entrypoints.service.upgrade.abandoned import find_abandoned, go_back_when_abandoned
from moorage.entrypoints.service.upgrade.back import go_back, restore_link
from moorage.entrypoints.service.upgrade.changeover import Changeover
from moorage.entrypoints.service.upgrade.command import _facts, _target, rooms
from moorage.entrypoints.service.upgrade.gate import Gate, environment_of
from moorage.entrypoints.service.upgrade.journal import Entry, Journal, Stage, UnderWayError
from moorage.entrypoints.service.upgrade.manager import Systemd
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
from moorage.kit.settings import Settings, as_a_service_has_them, find_config_file, load_settings

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
        (replace(FACTS, target_folder=OLD), "is at 1.0.0 already"),
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


PYTHON = ("python", f"{sys.version_info[0]}.{sys.version_info[1]}".encode())
Content = bytes | tuple[bytes, str]
"""Or a link: its kind, and where it leads."""


def installable(folder: Path, version: str = "1.1.0") -> Path:
    """A wheel that pip takes."""
    about = f"moorage-{version}.dist-info"
    files = {
        "moorage/__init__.py": "",
        "moorage/shipped/requirements-run.lock": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: moorage\nVersion: {version}\nRequires-Python: >=3.11\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: this test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\nmoor = moorage:main\n",
        f"{about}/RECORD": "",
    }
    file = folder / f"moorage-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return file


def bundle(file: Path, *members: tuple[str, Content]) -> Path:
    with tarfile.open(file, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content
                archive.addfile(member)
    return file


def hostile(folder: Path) -> Sequence[Path]:
    name, content = "moorage-1.1.0-py3-none-any.whl", installable(folder).read_bytes()
    good = (name, content)
    members: Sequence[Sequence[tuple[str, Content]]] = [
        [(f"moorage-/{name}", content), PYTHON],
        [(f"moorage-/../../{name}", content), PYTHON],
        [good, PYTHON, ("../above", b"")],
        [good, PYTHON, ("/tmp/elsewhere", b"")],
        [good, PYTHON, good],
        [good, PYTHON, ("moorage-0.0.1-py3-none-any.whl", installable(folder, "0.0.1").read_bytes())],
        [(name, (tarfile.SYMTYPE, "/etc/passwd")), PYTHON],
        [good, PYTHON, ("leads", (tarfile.SYMTYPE, "/etc")), ("leads/elsewhere", b"")],
        [good, PYTHON, ("waits", (tarfile.FIFOTYPE, ""))],
        [good, ("python", (tarfile.SYMTYPE, "python"))],
        [good, ("python", b"\xff\xfe")],
        [good, ("python", b"any of them")],
        [good],
        [PYTHON],
    ]
    files = [bundle(folder / f"bundle-{number}", *each) for number, each in enumerate(members)]
    cut = folder / "cut"
    cut.write_bytes(gzip.compress(bundle(folder / "whole", good, PYTHON).read_bytes())[:-300])
    return [*files, cut, wheel(folder, python="some")]


def test_whatever_somebody_put_into_a_file_is_said_in_one_line(tmp_path: Path) -> None:
    for file in hostile(tmp_path):
        with pytest.raises(SetupError, match=r"damaged|not a bundle"):
            read_release(file)


@pytest.mark.long
def test_a_release_becomes_a_version_whatever_its_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the Python of Debian 12, too, whose `tarfile` knows no filters."""
    for name in ("extract", "extractall"):
        monkeypatch.delattr(tarfile.TarFile, name)
    made = installable(tmp_path)
    packed = bundle(tmp_path / "packed", (made.name, made.read_bytes()), PYTHON)
    folder = tmp_path / "versions/1.1.0"
    for file in (made.rename(tmp_path / "download"), packed):
        release = read_release(file)
        assert not release.is_in(folder), "another file of the same version is another one"
        release.put_into(folder)
        assert release.is_in(folder)
        assert (folder / "bin/moor").is_file()
        assert [path.name for path in folder.parent.iterdir()] == ["1.1.0"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="it takes Debian or Ubuntu")
def test_so_does_a_debian_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """apt-get takes none of another name. Here it is one that only looks."""
    control = tmp_path / "root/DEBIAN/control"
    control.parent.mkdir(parents=True)
    about = {"Package": "moorage", "Version": "1.1.0-1", "Moorage-Version": "1.1.0", "Moorage-Python": "3.11"}
    about |= {"Architecture": "all", "Maintainer": "Moorage <moorage@localhost>", "Description": "a test"}
    control.write_text("".join(f"{name}: {value}\n" for name, value in about.items()))
    download, folder = tmp_path / "download", tmp_path / "versions/1.1.0"
    subprocess.run(["dpkg-deb", "--build", str(control.parent.parent), str(download)], check=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    script = f'for last; do :; done\ncase "$last" in *.deb) ;; *) exit 1 ;; esac\n[ -r "$last" ] && mkdir -p {folder}/bin && touch {folder}/bin/moor'
    (programs / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    release = read_release(download)
    assert (release.kind, release.version) == (Kind.DEB, Version("1.1.0"))
    release.put_into(folder)
    assert release.is_in(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["1.1.0"]


async def test_a_file_that_is_named_is_put_there_in_place_of_another_of_its_version(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one, perhaps, that a machine lost with its power; or the one that did not serve, built anew."""
    program = installation.versions / "1.1.0/bin/moor"
    program.parent.mkdir()
    program.touch()

    async def no_rooms(*_: object) -> list[Room]:
        return []

    monkeypatch.setattr("moorage.entrypoints.service.upgrade.command._rooms", no_rooms)
    monkeypatch.setattr(Systemd, "main_pid", lambda *_: 1)
    for wanted, is_there in ((str(installable(tmp_path)), False), ("1.1.0", True)):
        found = _target(wanted, installation)
        facts = await _facts(installation, Settings(home=tmp_path), Systemd(), *found, older=False)
        assert facts.is_there is is_there


async def test_newer_versions_than_the_target_are_kept(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0.8", "0.9", "1.0.0", "1.1.0", "2.0.0"):
        program = installation.versions / name / "bin/moor"
        program.parent.mkdir(parents=True)
        program.touch()

    async def no_rooms(*_: object) -> list[Room]:
        return []

    monkeypatch.setattr("moorage.entrypoints.service.upgrade.command._rooms", no_rooms)
    monkeypatch.setattr(Systemd, "main_pid", lambda *_: 1)
    found = _target("1.1.0", installation)
    facts = await _facts(installation, Settings(home=tmp_path), Systemd(), *found, older=False)
    assert [folder.name for folder in facts.old_folders] == ["0.8", "0.9"]


def test_what_lies_on_one_disk_shares_its_room(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    assert other.stat().st_dev != tmp_path.stat().st_dev
    found = rooms({tmp_path: 3, Path("/dev/shm"): 5, tmp_path.parent: 4})
    assert [(room.path, room.needed_bytes) for room in found] == [(tmp_path, 7), (other, 5)]


async def test_half_of_an_old_version_is_none_and_what_is_done_is_done(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever presses Ctrl-C while old ones are removed has upgraded."""
    old = installation.versions / "0.9"
    (old / "bin").mkdir(parents=True)
    (old / "bin/moor").touch()
    begun, order = threading.Event(), list[bool]()

    def remove(*_: object, **__: object) -> None:
        order.append((old / "bin/moor").exists())
        begun.set()

    monkeypatch.setattr("moorage.entrypoints.service.upgrade.release.shutil.rmtree", remove)
    changeover = Changeover(
        installation, Settings(home=tmp_path), Systemd(), None,
        installation.versions / "1.0.0", installation.versions / "1.1.0", 5, print,
    )  # fmt: skip
    doing = asyncio.ensure_future(changeover.run([RemoveVersion("Remove it.", old)]))
    await asyncio.to_thread(begun.wait)
    doing.cancel()
    await doing
    assert order == [False], "what makes it a version went first"
    assert Journal(installation).read() is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"stage": "another", "before": "/a", "after": "/b", "made": true}']
)
def test_a_journal_that_says_nothing_keeps_nothing_from_starting(
    installation: Installation, text: str
) -> None:
    installation.journal.write_text(text)
    with find_abandoned(installation) as found:
        assert found is None


async def test_nothing_stays_of_one_that_was_killed_while_it_was_put_there(
    installation: Installation,
) -> None:
    entry = entry_of(installation, Stage.PREPARING)
    for folder in (entry.after / "lib", installation.versions / ".unpacked-x"):
        folder.mkdir(parents=True)
    Journal(installation).write(entry)
    assert await go_back(installation, entry, Gate(installation, Systemd(), 5), print) == []
    assert [path.name for path in installation.versions.iterdir()] == ["1.0.0"]
    assert Journal(installation).read() is None


async def test_the_keeper_goes_on_when_it_cannot_go_back(installation: Installation) -> None:
    Journal(installation).write(entry_of(installation))
    installation.current.unlink()
    said: list[str] = []
    keeping = asyncio.ensure_future(go_back_when_abandoned(installation, Systemd(), said.append))
    while not said:
        await asyncio.sleep(0.01)
        assert not keeping.done(), keeping
    keeping.cancel()
    assert "Trying again" in said[0]


def test_settings_are_the_services_wherever_an_upgrade_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "etc.toml"
    config.write_text('public_url = "https://ours.example.com"')
    (tmp_path / "moorage.toml").write_text('public_url = "https://somebody.example.com"')
    monkeypatch.chdir(tmp_path)
    for name, value in (
        ("CONFIG", str(tmp_path / "moorage.toml")),
        ("HOME", "/another"),
        ("DATABASE_DSN", "postgresql://another/one"),
    ):
        monkeypatch.setenv(f"MOORAGE_{name}", value)
    before = dict(os.environ)
    with as_a_service_has_them(config, tmp_path / "home"):
        assert find_config_file() == config, "what a backup takes"
        found = load_settings()
    assert (found.public_url, found.home, found.database_dsn) == (
        "https://ours.example.com",
        tmp_path / "home",
        None,
    )
    assert dict(os.environ) == before
    with as_a_service_has_them(tmp_path / "absent.toml", tmp_path / "home"):
        assert load_settings(tmp_path / "absent.toml").public_url is None, "not that of the folder we are in"
