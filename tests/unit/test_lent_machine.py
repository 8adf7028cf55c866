"""What a machine that is lent is set up with: a sandbox in Docker's settings, and a node role that starts nothing without it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.base import NodeCapacity
from moorage.engines.remote.claims import node_of
from moorage.engines.remote.machine import Machine
from moorage.engines.sandboxes import SANDBOX_RUNTIME, is_sandbox
from moorage.kit.errors import SettingsError
from moorage.kit.settings import Settings
from moorage.machines.join_script import join_script, lent_join_script
from moorage.machines.on_machine.files import MachineFiles
from moorage.machines.on_machine.sandbox import runtime_entry, with_runtime
from moorage.node.settings import load_node_settings

MEMBERSHIP = {
    "id": "mch_1",
    "installation_id": "ins_aaaaaaaaaaaaaaaaaaaa",
    "address": "198.19.1.0",
    "port": 7420,
    "door_port": 7421,
    "replica_ports": [20000, 29999],
    "hubs": [{"address": "198.19.0.1"}],
    "infrastructure": "community",
    "allow_runc": False,
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "runtimes"), json_values, max_size=4))
def test_dockers_other_settings_stay(settings: dict[str, object]) -> None:
    before = settings | {"runtimes": {"runsc": {"path": "/mine"}}}
    entry = runtime_entry("/usr/bin/runsc", hands_gpus_over=False)
    after = with_runtime(json.dumps(before), entry)
    assert json.loads(after) == settings | {"runtimes": {"runsc": {"path": "/mine"}, SANDBOX_RUNTIME: entry}}
    assert with_runtime(after, entry) == after
    assert json.loads(with_runtime(after, None)) == before


@pytest.mark.parametrize("text", ["[]", "{", '{"runtimes": []}', "null"])
def test_what_docker_could_not_read_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        with_runtime(text, runtime_entry("/usr/bin/runsc", hands_gpus_over=True))


def test_a_sandbox_that_can_is_told_to_hand_gpus_over() -> None:
    assert "--nvproxy" in runtime_entry("/usr/bin/runsc", hands_gpus_over=True)["runtimeArgs"]
    assert "--nvproxy" not in runtime_entry("/usr/bin/runsc", hands_gpus_over=False)["runtimeArgs"]


@pytest.mark.parametrize("allow_runc", [False, True])
def test_its_node_role_wants_the_sandbox(tmp_path: Path, allow_runc: bool) -> None:
    files = MachineFiles(tmp_path)
    files.write_node_settings({**MEMBERSHIP, "allow_runc": allow_runc})
    written = load_node_settings(files.node_settings)
    assert (written.lent, written.container_runtime) == (True, SANDBOX_RUNTIME)
    assert written.unsandboxed_gpus is allow_runc
    assert is_sandbox(written.container_runtime)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (f'container_runtime = "{SANDBOX_RUNTIME}"', ""),
        (f'container_runtime = "{SANDBOX_RUNTIME}"', 'container_runtime = "runc"'),
        ("lent = true", 'lent = true\nisolation = "waived"'),
    ],
)
def test_it_does_not_begin_without_it(tmp_path: Path, line: str, other: str) -> None:
    files = MachineFiles(tmp_path)
    files.write_node_settings(MEMBERSHIP)
    files.node_settings.write_text(files.node_settings.read_text().replace(line, other))
    with pytest.raises(SettingsError, match="on a machine that is lent"):
        load_node_settings(files.node_settings)


def test_the_operators_own_has_none(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    files.write_node_settings({**MEMBERSHIP, "infrastructure": "operator"})
    written = load_node_settings(files.node_settings)
    assert (written.lent, written.container_runtime) == (False, None)


def test_owners_are_told_before_they_agree() -> None:
    settings = Settings(home=Path("/nonexistent"), public_url="https://cloud.moorage.example")
    lent = lent_join_script(settings)
    assert "infrastructure='community'" in lent
    assert "allow_runc='no'" in lent
    assert "allow_runc='yes'" in lent_join_script(settings.model_copy(update={"allow_runc": True}))
    asks = lent.index("printf 'Go on? [y/N] '")
    assert lent.index('[ "$infrastructure" = operator ] || say_what_lending_means') < asks
    for word in ("your public address", "WITHOUT that sandbox", "GPUs are used only if"):
        assert word in lent
    assert "infrastructure='operator'" in join_script("https://cloud.moorage.example")


def test_whose_it_is_and_how_it_stands_is_not_for_it_to_say() -> None:
    machine = Machine("mch_1", "community", "198.19.1.0", 7420, "credential", verified=False)
    claimed = NodeCapacity(
        "operators-own", "operator", "amd64", 4000, 2**33, (), owner="org_other", on_probation=False
    )
    node = node_of(machine, [claimed], 0.0)
    assert (node.name, node.infrastructure, node.owner) == ("mch_1", "community", None)
    assert not node.takes_replicas, "nothing is placed there before it has proven what it claims"
    assert node_of(replace(machine, verified=True), [claimed], 0.0).takes_replicas
