"""What the operator is told of each part, from facts."""

import ast
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import moorage
from moorage.containers.repository import GatewayStatus
from moorage.engines.base import LOCAL_ENGINE, WRONG_CLOCK, GpuDevice, HostFinding, MachineKey, NodeCapacity
from moorage.engines.engines import Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedMachine
from moorage.entrypoints.health_parts import (
    Certificate,
    Disk,
    Part,
    State,
    backup_part,
    certificate_part,
    disk_part,
    gateway_parts,
    host_parts,
    isolation_parts,
    machine_parts,
    queue_part,
    reconciler_parts,
    tunnel_parts,
    worst,
)
from moorage.entrypoints.reconcilers import RECONCILERS, Parts, make_reconcilers
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings
from moorage.machines.states import Tunnel, TunnelState
from moorage.reconcile.status import ReconcilerStatus
from moorage.telemetry.operator_repository import Queue

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=3)


def status(name: str, **more: object) -> ReconcilerStatus:
    values: dict[str, object] = {
        "holder": "here:1", "last_run_at": NOW, "last_success_at": NOW, "last_error": None,
        "consecutive_failures": 0, "objects_failing": 0, "age_s": 0.0, **more,
    }  # fmt: skip
    return ReconcilerStatus(name=name, **values)  # type: ignore[arg-type]


def test_reconcilers() -> None:
    found = reconciler_parts(
        ("containers", "logs", "ledger", "metrics", "renewals"),
        [
            status("containers"),
            status("logs", last_run_at=LONG_AGO),
            status("ledger", last_error="It differs.", last_success_at=LONG_AGO),
            status("metrics", objects_failing=2),
        ],
        NOW,
    )
    assert [(part.name.removeprefix("reconciler "), part.state, part.since) for part in found] == [
        ("containers", State.OK, NOW),
        ("ledger", State.FAILING, LONG_AGO),
        ("logs", State.FAILING, LONG_AGO),
        ("metrics", State.WARNING, NOW),
        ("renewals", State.FAILING, None),
    ]
    assert found[1].message == "It differs."
    assert "A person must decide" in (found[1].what_to_do or "")


def test_gateways_and_machines() -> None:
    alive, silent = GatewayStatus("gtw_a", NOW, True, 3), GatewayStatus("gtw_b", LONG_AGO, False, 3)
    assert [(part.state, part.since) for part in gateway_parts([alive, silent])] == [
        (State.OK, NOW),
        (State.FAILING, LONG_AGO),
    ]
    assert gateway_parts([])[0].state is State.FAILING
    assert [
        (part.state, part.since)
        for part in machine_parts({MachineKey("local", "a"): 0.0, MachineKey("local", "b"): 259_200.0}, NOW)
    ] == [
        (State.OK, NOW),
        (State.FAILING, LONG_AGO),
    ]
    assert machine_parts({}, NOW)[0].state is State.FAILING


def test_a_lost_machine_is_told_before_its_engine_is_silent() -> None:
    """What helps is on the machine, and its replicas do not go on."""
    [own, lost] = machine_parts(
        {MachineKey("local", "a"): 0.0, MachineKey("mch_1", "b"): 25.0}, NOW, {"mch_1"}
    )
    assert own.state is State.OK
    assert (lost.name, lost.state) == ("engine b", State.FAILING)
    assert "replaced on other machines" in lost.message
    assert lost.what_to_do is not None
    assert "moor machines remove b" in lost.what_to_do


@pytest.mark.parametrize(
    ("tunnel", "states"),
    [
        (TunnelState.NOT_NEEDED, []),
        (TunnelState.OPEN, [State.OK]),
        (TunnelState.OPENING, [State.WARNING]),
        (TunnelState.FAILING, [State.FAILING]),
    ],
)
def test_the_tunnel(tunnel: TunnelState, states: list[State]) -> None:
    assert [part.state for part in tunnel_parts(Tunnel(tunnel, "so it is"))] == states


@pytest.mark.parametrize(
    ("part", "state"),
    [
        (queue_part("mail", Queue(0), NOW, "fix"), State.OK),
        (queue_part("mail", Queue(7, NOW - timedelta(minutes=9)), NOW, "fix"), State.OK),
        (queue_part("mail", Queue(7, LONG_AGO, "refused"), NOW, "fix"), State.WARNING),
        (disk_part(Disk("/data", 16, 100)), State.OK),
        (disk_part(Disk("/data", 14, 100)), State.WARNING),
        (disk_part(Disk("/data", 4, 100)), State.FAILING),
        (certificate_part(Certificate("api", "/c.pem", NOW + timedelta(days=22)), NOW), State.OK),
        (certificate_part(Certificate("api", "/c.pem", NOW + timedelta(days=20)), NOW), State.WARNING),
        (certificate_part(Certificate("api", "/c.pem", LONG_AGO), NOW), State.FAILING),
        (certificate_part(Certificate("api", "/c.pem", None), NOW), State.FAILING),
        (backup_part(None, NOW), State.UNKNOWN),
        (backup_part(NOW - timedelta(days=1), NOW), State.OK),
        (backup_part(LONG_AGO, NOW), State.WARNING),
    ],
)
def test_thresholds(part: Part, state: State) -> None:
    assert part.state is state
    assert (part.what_to_do is None) == (state is State.OK), "whoever is told of a trouble is told what to do"


def test_the_whole_is_its_worst_part() -> None:
    ok, unknown = Part("a", State.OK, ""), Part("b", State.UNKNOWN, "")
    assert worst([ok, unknown]) is State.OK
    assert worst([ok, Part("c", State.FAILING, ""), Part("d", State.WARNING, "")]) is State.FAILING


def test_every_reconciler_is_listed_by_its_own_name(tmp_path: Path) -> None:
    """One that is not would be missed by nobody."""
    settings = Settings(home=tmp_path)
    database = Database("postgresql://nobody@127.0.0.1:1/nothing")
    engine = SimulatedEngine(SimulatedMachine(VirtualClock(), {}), InstallationId("ins_test"))
    keyring = Keyring(((b"\x01" * 4, b"\x02" * 32),))
    found = make_reconcilers(
        Parts(database, Engines({LOCAL_ENGINE: engine}), keyring, None, settings, system_clock)
    )
    assert {name: one.name for name, one in found.items()} == {name: name for name in found}
    classes = {
        f"{path.relative_to(SOURCE).with_suffix('').as_posix().replace('/', '.')}:{node.name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and _methods(node) >= {"due", "reconcile", "postpone", "lead"}
    }
    # The protocol itself is none.
    assert classes - {"reconcile.driver:Reconciler"} == {
        path.removeprefix("moorage.") for path in RECONCILERS.values()
    }


def test_what_a_machines_doctor_found_is_a_part_of_health() -> None:
    gpu = GpuDevice("GPU-0", "NVIDIA H200", 2**37)
    well = NodeCapacity(
        "well", "operator", "amd64", 1, 1, (gpu,), gpu_handover="direct", gpu_handover_reason="so"
    )
    found = (
        HostFinding("gpu_lost", "It fell off the bus.", "reboot", broken=True),
        HostFinding("persistence_off", "It is unloaded.", "nvidia-smi -pm 1", broken=False),
    )
    ill = NodeCapacity("ill", "operator", "amd64", 1, 1, (gpu,), findings=found)
    plain = NodeCapacity("plain", "operator", "amd64", 1, 1, ())
    assert [(part.name, part.state, part.what_to_do) for part in host_parts([well, ill, plain])] == [
        ("host well", State.OK, None),
        ("host ill", State.FAILING, "On that machine: `reboot`"),
        ("host ill", State.WARNING, "On that machine: `nvidia-smi -pm 1`"),
    ]


def _methods(node: ast.ClassDef) -> set[str]:
    return {one.name for one in node.body if isinstance(one, ast.AsyncFunctionDef)}


SOURCE = Path(moorage.__file__).parent


def test_a_machine_with_a_wrong_clock_is_not_told_to_install_a_firewall() -> None:
    node = NodeCapacity(
        "rack-7", "operator", "amd64", 1, 1, (), closed_because=f"{WRONG_CLOCK} 90 s behind Moorage's"
    )
    [part] = isolation_parts([node])
    assert (part.name, part.state) == ("clock rack-7", State.FAILING)
    assert "90 s behind" in part.message
    assert "timedatectl" in (part.what_to_do or "")
    [part] = isolation_parts([replace(node, closed_because="iptables is not installed")])
    assert part.name == "isolation rack-7"
    assert "not kept apart" in part.message
