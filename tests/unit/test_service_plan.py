"""What `moor install` and `moor uninstall` have to do, from what was found; and the files that they write."""

import configparser
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from moorage.entrypoints.service.firewall_note import firewall_note
from moorage.entrypoints.service.places import (
    BACKUPS,
    COMMAND,
    COMMAND_ON_PATH,
    CONFIG,
    CONFIG_IN_HOME,
    CURRENT,
    HOME,
    PACKAGED_COMMAND,
    PACKAGED_UNITS,
    RECOVERY_KEY,
    UNITS,
    VERSIONS,
)
from moorage.entrypoints.service.plan import (
    FOLDERS,
    TO_ENABLE,
    Call,
    InstallPackages,
    Link,
    Machine,
    MakeFolder,
    MakeSettings,
    MakeUser,
    Move,
    Remove,
    RemoveData,
    Step,
    StopEverything,
    WriteFile,
    installation,
    removal,
)
from moorage.entrypoints.service.settings_file import settings_file
from moorage.entrypoints.service.units import BACKUP, MARK, ROLE_UNITS, SERVICE, TIMER, units
from moorage.entrypoints.up import down
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings, load_settings

UNIT_FILES = units()
FRESH = Machine(environment=VERSIONS / "1.0.0")
INSTALLED = Machine(
    environment=VERSIONS / "1.0.0",
    has_user=True,
    folders=dict(FOLDERS),
    texts={CONFIG: "…", RECOVERY_KEY: "…", **{UNITS / name: text for name, text in UNIT_FILES.items()}},
    links={CURRENT: VERSIONS / "1.0.0", COMMAND_ON_PATH: COMMAND, CONFIG_IN_HOME: CONFIG},
    enabled=frozenset(TO_ENABLE),
    active=frozenset(TO_ENABLE),
    has_engine=True,
)


def kinds(steps: list[Step]) -> list[type[Step]]:
    return [type(step) for step in steps]


def test_a_fresh_machine_gets_everything_in_an_order_that_works() -> None:
    steps = installation(FRESH, UNIT_FILES)
    found = kinds(steps)
    assert found[:2] == [InstallPackages, MakeUser]
    assert found.count(MakeFolder) == len(FOLDERS)
    assert found.count(WriteFile) == len(UNIT_FILES)
    assert found.index(MakeFolder) < found.index(MakeSettings) < found.index(WriteFile) < found.index(Call)
    assert [step.arguments[0] for step in steps if isinstance(step, Call)] == [
        "daemon-reload",
        "enable",
        "start",
    ]
    assert Link("", CURRENT, VERSIONS / "1.0.0") in [replace(one, says="") for one in steps]
    assert all(step.says.endswith(".") for step in steps)


def test_a_second_run_finds_nothing_to_do() -> None:
    assert installation(INSTALLED, UNIT_FILES) == []


@pytest.mark.parametrize(
    ("broken", "repair"),
    [
        ({"has_user": False}, [MakeUser]),
        ({"folders": {**FOLDERS, BACKUPS: 0o755}}, [MakeFolder]),
        ({"links": {**INSTALLED.links, CONFIG_IN_HOME: Path("/elsewhere")}}, [Link]),
        ({"enabled": frozenset(TO_ENABLE) - {TIMER}}, [Call]),
        ({"active": frozenset(TO_ENABLE) - {ROLE_UNITS[0]}}, [Call]),
        ({"texts": {**INSTALLED.texts, UNITS / SERVICE: f"{MARK}\nchanged"}}, [WriteFile, Call, Call]),
        ({"environment": VERSIONS / "2.0.0"}, [Link, Call]),
        ({"has_engine": False}, [InstallPackages]),
    ],
)
def test_what_differs_is_repaired_and_nothing_else(
    broken: dict[str, object], repair: list[type[Step]]
) -> None:
    assert kinds(installation(replace(INSTALLED, **broken), UNIT_FILES)) == repair


def test_another_version_restarts_a_service_that_runs() -> None:
    steps = installation(replace(INSTALLED, environment=VERSIONS / "2.0.0"), UNIT_FILES)
    assert [one.arguments for one in steps if isinstance(one, Call)] == [("restart", SERVICE)]


def test_the_operators_settings_are_left_alone() -> None:
    for machine in (FRESH, INSTALLED):
        with_settings = replace(machine, texts={**machine.texts, CONFIG: "mine"})
        assert not {MakeSettings, Move} & set(kinds(installation(with_settings, UNIT_FILES)))
    tried_out = replace(FRESH, other_files=frozenset({CONFIG_IN_HOME}))
    assert {Move} == {MakeSettings, Move} & set(kinds(installation(tried_out, UNIT_FILES)))
    with pytest.raises(SetupError, match="two settings files"):
        installation(replace(INSTALLED, links={}, other_files=frozenset({CONFIG_IN_HOME})), UNIT_FILES)


def test_what_a_package_brings_is_left_to_it() -> None:
    packaged = {PACKAGED_UNITS / name: text for name, text in UNIT_FILES.items()}
    machine = replace(FRESH, texts=packaged, other_files=frozenset({PACKAGED_COMMAND}))
    steps = installation(machine, UNIT_FILES)
    assert WriteFile not in kinds(steps)
    assert COMMAND_ON_PATH not in [step.path for step in steps if isinstance(step, Link)]
    # A copy of ours from before would hide the package's units; one that the operator made is theirs.
    before = {UNITS / SERVICE: f"{MARK}\nold", UNITS / TIMER: "mine"}
    steps = installation(replace(machine, texts={**packaged, **before}), UNIT_FILES)
    assert [step.path for step in steps if isinstance(step, Remove)] == [UNITS / SERVICE]


def test_units_that_the_operator_wrote_or_masked_are_left_alone() -> None:
    texts = {**INSTALLED.texts, UNITS / SERVICE: "mine", UNITS / TIMER: ""}
    masked = replace(
        INSTALLED,
        texts=texts,
        other_files=frozenset({UNITS / TIMER}),
        enabled=INSTALLED.enabled - {TIMER},
        active=frozenset(),
    )
    (start,) = installation(masked, UNIT_FILES)
    assert isinstance(start, Call)
    assert start.arguments == ("start", SERVICE, *ROLE_UNITS)
    # One that is empty is nobody's.
    repaired = installation(replace(INSTALLED, texts=texts), UNIT_FILES)
    assert [step.path for step in repaired if isinstance(step, WriteFile)] == [UNITS / TIMER]


def test_without_systemd_it_starts_at_the_next_boot() -> None:
    steps = installation(replace(FRESH, runs_systemd=False), UNIT_FILES)
    assert [step.arguments[0] for step in steps if isinstance(step, Call)] == ["enable"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"is_root": False}, "needs root"),
        ({"runs_up": True}, "Stop it first"),
        ({"has_command": False}, "no bin/moor"),
        ({"strangers": (Path("/home/ada"),)}, "users other than root may write to /home/ada"),
    ],
)
def test_it_does_not_begin_where_it_must_not(fault: dict[str, object], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        installation(replace(FRESH, **fault), UNIT_FILES)


def test_uninstalling_keeps_the_data_or_removes_it() -> None:
    kept = removal(INSTALLED, UNIT_FILES, with_data=False)
    paths = [step.path for step in kept if isinstance(step, Remove)]
    assert set(paths) == {UNITS / name for name in UNIT_FILES} | {CURRENT, COMMAND_ON_PATH}
    assert [step.remove_replicas for step in kept if isinstance(step, StopEverything)] == [False]
    assert kinds(kept)[:2] == [Call, StopEverything], "nothing is removed below what runs"
    removed = removal(INSTALLED, UNIT_FILES, with_data=True)
    more = {step.path for step in removed if isinstance(step, Remove | RemoveData)} - set(paths)
    assert more == {HOME, BACKUPS, CONFIG, RECOVERY_KEY}
    assert [step.remove_replicas for step in removed if isinstance(step, StopEverything)] == [True]
    assert removal(Machine(), UNIT_FILES, with_data=True) == []
    # Its `moor` goes on working, to install it again.
    packaged = replace(INSTALLED, other_files=frozenset({PACKAGED_COMMAND}))
    assert CURRENT not in [
        step.path for step in removal(packaged, {}, with_data=True) if isinstance(step, Remove | RemoveData)
    ]


def test_units_start_the_roles_and_stop_with_the_service() -> None:
    parsed = {name: _parsed(text) for name, text in UNIT_FILES.items()}
    for name in ROLE_UNITS:
        role = name.removeprefix("moorage-").removesuffix(".service")
        assert parsed[name]["Service"]["ExecStart"] == [f"{COMMAND} serve --role {role}"]
        assert parsed[name]["Unit"]["PartOf"] == parsed[name]["Unit"]["After"] == [SERVICE]
        assert name in parsed[SERVICE]["Unit"]["Wants"][-1]
        assert parsed[name]["Service"]["NoNewPrivileges"] == ["yes"]
        assert parsed[name]["Unit"]["StartLimitIntervalSec"] == ["0"], "systemd goes on trying"
    # What must outlive its starter does.
    outliving = {
        name for name, unit in parsed.items() if unit.get("Service", {}).get("KillMode") == ["process"]
    }
    assert outliving == {SERVICE, "moorage-gateway.service"}
    assert parsed[BACKUP]["Service"]["ExecStart"] == [f"{COMMAND} backup"]
    assert "docker.sock" in parsed["moorage-api.service"]["Service"]["InaccessiblePaths"][0]


def _parsed(text: str) -> dict[str, dict[str, list[str]]]:
    class Lists(dict[str, object]):
        def __setitem__(self, key: str, value: object) -> None:
            if isinstance(value, list) and key in self:
                self[key].extend(value)
            else:
                super().__setitem__(key, value)

    parser = configparser.RawConfigParser(strict=False, dict_type=Lists, empty_lines_in_values=False)
    parser.optionxform = str
    parser.read_string(text)
    return {
        name: {key: value.splitlines() for key, value in parser[name].items()} for name in parser.sections()
    }


def test_the_settings_file_has_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = settings_file({"backup_folder": str(BACKUPS)})
    assert tomllib.loads(text) == {"backup_folder": str(BACKUPS)}
    for name in Settings.model_fields:
        assert (f"\n#{name} =" in text) != (f"\n{name} =" in text), name
    # Each default, uncommented, is accepted and is the default.
    for name in [one for one in os.environ if one.startswith("MOORAGE_")]:
        monkeypatch.delenv(name)
    lines = [
        line.removeprefix("#") for line in text.splitlines() if line.startswith("#") and "# " not in line[:2]
    ]
    file = tmp_path / "moorage.toml"
    file.write_text(
        "\n".join(line for line in lines if not line.endswith("=") and not line.startswith("home"))
    )
    assert len(file.read_text().splitlines()) > 100
    assert load_settings(file, home=tmp_path) == load_settings(home=tmp_path)


def test_the_firewall_note_names_what_is_open_and_to_whom() -> None:
    local = "\n".join(firewall_note("127.0.0.1:8080", "127.0.0.1:8081", None, 51820, "20000-29999", ["ufw"]))
    assert "which only this machine can reach" in local
    assert "you need not open any port" in local
    public = "\n".join(firewall_note("0.0.0.0:443", "[::]:8443", "0.0.0.0:80", 51820, "20000-29999", ["ufw"]))
    assert "open TCP port 443" in public
    assert "checks 0.0.0.0:80: open TCP port 80 to everybody" in public
    assert "This machine runs ufw. Open TCP 443 and TCP 8443 and TCP 80 in it." in public


async def test_down_leaves_the_service_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = tmp_path / "moorage.service"
    boot.symlink_to("/nowhere")
    monkeypatch.setattr("moorage.entrypoints.up.STARTS_AT_BOOT", boot)
    monkeypatch.setattr("moorage.entrypoints.up.HOME", tmp_path)
    with pytest.raises(SetupError, match="systemctl stop moorage"):
        await down(Settings(home=tmp_path), print)
