"""What is counted as written; the containers themselves are in tests/engine/test_docker_disk.py."""

import os
import subprocess
from pathlib import Path

import pytest

from moorage.engines.docker import disk
from moorage.engines.docker.disk import (
    LEAST_BYTES,
    WritablePlaces,
    space_of,
    writable_places_of,
    written_bytes_at,
)

MIB = 2**20


def places(layer: Path, *others: Path) -> WritablePlaces:
    return WritablePlaces("engine-id", 0, layer, others)


def write(path: Path, size_bytes: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size_bytes))
    return path


def test_the_layer_and_whatever_else_it_may_write(tmp_path: Path) -> None:
    layer, volume = tmp_path / "diff", tmp_path / "volume"
    write(layer / "deep/er/file", 2 * MIB)
    write(volume / "data", MIB)
    hosts = write(tmp_path / "hosts", MIB)
    assert 4 * MIB <= written_bytes_at(places(layer, volume, hosts), 2**40) < 4.2 * MIB


def test_a_hole_is_nothing_and_a_second_name_neither(tmp_path: Path) -> None:
    with open(write(tmp_path / "sparse", 0), "r+b") as file:
        file.truncate(2**40)
    os.link(write(tmp_path / "once", 2 * MIB), tmp_path / "twice")
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert 2 * MIB <= written_bytes_at(places(tmp_path), 2**41) < 2.2 * MIB


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    layer, outside = tmp_path / "diff", tmp_path / "outside"
    folder = write(layer / "folder/file", 1).parent
    write(outside / "large", 2 * MIB)
    entries = disk._entries(layer)
    seen = [next(entries)]  # the folder itself; what is in it comes next
    folder.rename(tmp_path / "moved")
    folder.symlink_to(outside)
    seen += entries
    assert len(seen) == 1


def test_empty_files_count_too(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert written_bytes_at(places(tmp_path), 2**40) >= 100 * LEAST_BYTES


def test_counting_ends_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MANY", 10)
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert written_bytes_at(places(tmp_path), LEAST_BYTES * 20) == LEAST_BYTES * 21


def test_a_tree_that_is_deeper_than_a_path_may_be_long(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_DIRECTORY)
    for _ in range(50):
        os.mkdir("x" * 200, dir_fd=folder)
        deeper = os.open("x" * 200, os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    with open("hidden", "wb", opener=lambda name, flags: os.open(name, flags, dir_fd=folder)) as file:
        file.write(os.urandom(2 * MIB))
    os.close(folder)
    assert written_bytes_at(places(tmp_path), 2**40) >= 2 * MIB
    subprocess.run(["rm", "-r", str(tmp_path / ("x" * 200))], check=True, timeout=60)


def test_a_tree_takes_three_descriptors_however_it_is_made(tmp_path: Path) -> None:
    """Wide and deep beyond the longest path: 20,000 descriptors of the controller were open at once."""
    name, folders = "x" * 200, 12
    folder = os.open(tmp_path, os.O_DIRECTORY)
    for _ in range(30):
        for number in range(folders):
            os.mkdir(f"{number}{name}", dir_fd=folder)
        deeper = os.open(f"5{name}", os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    before, most, seen = len(os.listdir("/proc/self/fd")), 0, 0
    for _ in disk._entries(tmp_path):
        seen += 1
        most = max(most, len(os.listdir("/proc/self/fd")) - before)
    assert seen == 30 * folders
    assert most <= 3
    assert len(os.listdir("/proc/self/fd")) == before
    subprocess.run(["rm", "-r", str(tmp_path)], check=True, timeout=60)


def test_a_folder_that_is_moved_away_loses_only_itself(tmp_path: Path) -> None:
    layer, elsewhere = tmp_path / "diff", tmp_path / "elsewhere"
    write(layer / "a/b/c/one", 1)
    for name in ("a/d/two", "e/three"):
        write(layer / name, 1)
    elsewhere.mkdir()
    entries, seen = disk._entries(layer), 0
    for entry in entries:
        seen += 1
        if entry.st_ino == (layer / "a/b/c").stat().st_ino:
            (layer / "a/b").rename(elsewhere / "b")
            break
    seen += sum(1 for _ in entries)
    # a, b, c and e, d, two, three; and one, because c was still below the open b.
    assert seen == 8


def test_an_engine_that_is_elsewhere(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    files = dict.fromkeys(("HostsPath", "HostnamePath", "ResolvConfPath"), absent)
    inspected = {"Id": "x", "State": {"Pid": 1}, **files}
    assert writable_places_of(inspected | {"GraphDriver": {"Data": {"UpperDir": absent}}}) is None
    assert writable_places_of(inspected | {"GraphDriver": {"Data": None}}) is None
    assert space_of(str(tmp_path / "absent")) is None
    space = space_of(str(tmp_path))
    assert space is not None
    assert 0 < space.free_bytes < space.total_bytes
