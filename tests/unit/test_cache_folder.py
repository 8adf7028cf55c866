"""Folders of caches: what is counted, what goes first, and where a link does not lead."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from moorage.engines.docker import cache_folder
from moorage.engines.docker.cache_folder import Held, Inode, contents_of, delete_what_is_deep, trim
from moorage.engines.docker.disk import _opened_by

MEBIBYTE = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "volume" / "_data"
    data.mkdir(parents=True)
    return data


def put(folder: Path, path: str, *, mebibytes: int = 1, used_at: float = 1000.0) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * mebibytes * MEBIBYTE)
    os.utime(file, (used_at, used_at))
    for parent in file.relative_to(folder).parents:
        os.utime(folder / parent, (used_at, used_at))
    return file


def names(folder: Path) -> set[str]:
    return {"/".join((*one.parents, one.name)) for one in contents_of(folder).entries}


def test_a_model_is_one_entry_and_so_is_a_graph_of_a_compiler(folder: Path) -> None:
    put(folder, "huggingface/hub/models--a/blobs/1")
    put(folder, "huggingface/hub/models--a/blobs/2")
    put(folder, "huggingface/token")
    put(folder, "triton/graph/kernel.so", mebibytes=2)
    put(folder, "loose")
    assert names(folder) == {"huggingface/hub/models--a", "huggingface/token", "triton/graph", "loose"}
    held = contents_of(folder).held
    assert 6 * MEBIBYTE <= held.size_bytes < 7 * MEBIBYTE
    assert 2 * MEBIBYTE <= held.compiled_bytes < 3 * MEBIBYTE


def test_a_file_with_two_names_counts_once(folder: Path) -> None:
    first = put(folder, "huggingface/hub/models--a/blobs/1", mebibytes=4)
    (folder / "huggingface/hub/models--b").mkdir()
    os.link(first, folder / "huggingface/hub/models--b/same")
    assert contents_of(folder).held.size_bytes < 5 * MEBIBYTE


def test_what_was_not_used_for_longest_goes_until_it_fits(folder: Path) -> None:
    for name, used_at in (("a", 300.0), ("b", 100.0), ("c", 200.0)):
        put(folder, f"huggingface/hub/models--{name}/w", used_at=used_at)
    left = trim(folder, int(2.5 * MEBIBYTE), (), None)
    assert names(folder) == {"huggingface/hub/models--a", "huggingface/hub/models--c"}
    assert left == contents_of(folder).held
    assert not (folder.parent / "moor-going").exists()


def test_what_is_open_or_was_used_since_the_oldest_start_stays(folder: Path) -> None:
    opened = put(folder, "huggingface/hub/models--opened/w", used_at=100.0).stat()
    put(folder, "huggingface/hub/models--used/w", used_at=500.0)
    put(folder, "huggingface/hub/models--idle/w", used_at=499.0)
    left = trim(folder, 0, {Inode(opened.st_dev, opened.st_ino)}, 500.0)
    assert names(folder) == {"huggingface/hub/models--opened", "huggingface/hub/models--used"}
    assert left.size_bytes > 0


def test_a_link_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    """A tenant may put one anywhere, also where a folder was a moment ago."""
    precious = put(tmp_path, "precious/models--x/w", mebibytes=8)
    (folder / "huggingface").mkdir()
    (folder / "huggingface" / "hub").symlink_to(tmp_path / "precious")
    (folder / "triton").symlink_to(tmp_path / "precious")
    (folder / "huggingface" / "models--y").symlink_to(tmp_path / "precious")
    assert contents_of(folder).held.size_bytes < MEBIBYTE
    assert trim(folder, 0, (), None) == Held(0, 0)
    assert precious.exists()


def test_a_tree_deeper_than_python_goes_is_taken_away(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(3000):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    (entry,) = contents_of(folder).entries
    assert entry.size_bytes >= 2999 * 4096
    trim(folder, 0, (), None)
    assert list((folder / "d").iterdir()) == []


def test_what_is_beyond_the_entries_that_are_told_apart_counts_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever makes enough empty files has a cache without a bound, and somebody else is ended for the full disk."""
    monkeypatch.setattr(cache_folder, "MOST_ENTRIES", 20)
    put(folder, "weights/w", mebibytes=8)
    for shelf in ("a", "x"):
        (folder / shelf).mkdir()
        for number in range(21):
            (folder / shelf / str(number)).touch()
    contents = contents_of(folder)
    assert len(contents.entries) == 20
    assert contents.held.size_bytes >= 8 * MEBIBYTE + 42 * 4096


def test_hundreds_of_folders_take_a_handful_of_descriptors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that looks serves others meanwhile, and has only so many."""
    for number in range(200):
        put(folder, f"{number}/w", mebibytes=0)
    most, plain_open = 0, os.open

    def counting(*args: Any, **options: Any) -> int:
        nonlocal most
        descriptor: int = plain_open(*args, **options)
        most = max(most, descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", counting)
    before = max(int(name) for name in os.listdir("/proc/self/fd"))
    assert len(contents_of(folder).entries) == 200
    assert most <= before + 10


def test_files_take_no_memory(folder: Path) -> None:
    """A cache may hold millions."""
    (folder / "a" / "b").mkdir(parents=True)
    for number in range(2000):
        (folder / "a" / "b" / str(number)).touch()
    tracemalloc.start()
    try:
        contents_of(folder)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 2000 * 60


def test_whoever_goes_on_writing_to_what_was_moved_out_stops_nobody_and_is_counted(folder: Path) -> None:
    put(folder, "huggingface/hub/models--a/w")
    inside = folder / "huggingface" / "hub" / "models--a"
    # As a process of a tenant whose working folder it is.
    endless = "import os\nprint(flush=True)\nn = 0\nwhile True:\n  n += 1\n  open(f'{n:050}', 'w').close()"
    with subprocess.Popen([sys.executable, "-c", endless], cwd=inside, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline()
            trim(folder, 0, (), None)
        finally:
            writer.kill()
    assert not inside.exists()
    left = folder.parent / "moor-going" / "left"
    left.mkdir(parents=True, exist_ok=True)
    (left / "w").write_bytes(b"x" * MEBIBYTE)
    assert contents_of(folder).held.size_bytes >= MEBIBYTE
    trim(folder, 0, (), None)
    assert not left.exists()


def test_only_what_is_deeper_than_anything_honest_is_taken_away_before_the_engine_deletes(
    folder: Path,
) -> None:
    deep = folder.joinpath(*["d"] * 300)
    deep.mkdir(parents=True)
    kept = put(folder, "huggingface/hub/models--a/snapshots/1/onnx/w")
    delete_what_is_deep(folder)
    assert kept.exists()
    assert not deep.exists()
    assert folder.joinpath(*["d"] * 200).exists()


def test_the_folder_that_a_process_works_in_is_in_use(folder: Path) -> None:
    with subprocess.Popen(["cat"], cwd=folder, stdin=subprocess.PIPE) as working:
        opened = {os.path.realpath(one) for one in _opened_by(Path("/proc") / str(working.pid))}
    assert str(folder.resolve()) in opened
