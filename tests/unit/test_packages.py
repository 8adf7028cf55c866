"""What the wheel and the Debian package are called, and that nothing is missing in them; `make prove-packages` installs them."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from moorage.entrypoints.example_image import SOURCE_NAMES
from moorage.kit import shipped
from moorage.machines import join_script

DEPLOY = Path(__file__).parents[2] / "deploy/packages"


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DEPLOY))
    for other in ("version", "wheel"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tags", "version", "debian"),
    [
        ([], "0.2.0.dev41+gabcdef01", "0.2.0~dev41+gabcdef01-1~python3.11"),
        (["v0.1.0"], "0.1.0", "0.1.0-1~python3.11"),
        (["nightly", "v1.0.0rc1"], "1.0.0rc1", "1.0.0~rc1-1~python3.11"),
    ],
)
def test_a_version_is_that_of_the_tag(
    tags: list[str], version: str, debian: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = loaded("version", monkeypatch)
    assert module.chosen(tags, "0.2.0", "41+gabcdef01") == version
    assert module.debian(version, "3.11") == debian


def test_two_versions_of_one_commit_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"0\.1\.0, 0\.2\.0"):
        loaded("version", monkeypatch).chosen(["v0.1.0", "v0.2.0"], "0.2.0", "1+gabcdef01")


def test_the_wheel_ships_what_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    root = shipped.shipped_root()
    files = {
        path.relative_to(root).as_posix()
        for name in loaded("wheel", monkeypatch).SHIPPED
        for path in [root / name, *(root / name).rglob("*")]
    }
    assert set(join_script._FILES) <= files
    assert {f"examples/chat/{name}" for name in (*SOURCE_NAMES, "container.toml")} <= files


def test_machines_that_join_get_the_code_and_no_built_pages() -> None:
    names = set(join_script._sources())
    assert {"pyproject.toml", "scripts/setup", "src/moorage/node/main.py", "src/moorage_cli/app.py"} <= names
    assert not [name for name in names if "/dist" in name or "/shipped/" in name or "__pycache__" in name]


def test_a_package_that_replaces_another_takes_nothing_from_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's own scripts, on folders of the test."""
    module = loaded("deb", monkeypatch)
    versions, current = tmp_path / "versions", tmp_path / "current"
    names = {
        "versions": versions,
        "current": current,
        "starts_at_boot": tmp_path / "wants",
        "mark": module._MARK,
    }

    def script(text: str, version: str, *arguments: str) -> str:
        more = {"environment": versions / version, "packaged": tmp_path / "packaged" / version}
        command = ["sh", "-c", text.format(**names, **more), "script", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def unpacked(version: str) -> None:
        folder = tmp_path / "packaged" / version
        (folder / "bin").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "bin/python3").symlink_to(sys.executable)
        (folder / "lib/role.py").write_text(f"VERSION = {version!r}\n")

    unpacked("1")
    assert "moor install" in script(module._POSTINST, "1", "configure", "")
    assert current.readlink() == versions / "1"
    assert list((versions / "1/lib/__pycache__").iterdir()), "the units keep Python from doing it"
    (tmp_path / "wants").touch()
    # As dpkg replaces it: the new one's files, then the old one's go, then the new one's script.
    unpacked("2")
    shutil.rmtree(tmp_path / "packaged/1")
    assert 'Run "moor upgrade"' in script(module._POSTINST, "2", "configure", "1")
    assert current.readlink() == versions / "1", "the service is not touched"
    assert (versions / "1/lib/role.py").read_text() == "VERSION = '1'\n"
    assert (versions / "2/lib/role.py").read_text() == "VERSION = '2'\n"
    # Of what the package made nothing stays; what somebody else made does.
    (versions / "try").mkdir()
    script(module._POSTRM, "2", "remove")
    assert [path.name for path in versions.iterdir()] == ["try"]
    assert not current.is_symlink()
