"""The operator's commands, and those that ask the operator or a registry for something."""

import json
import shlex
from pathlib import Path

from cli_server import TYPE_PROPOSAL, FakeMoorage, Moor

from moorage_cli.commands.operator_types import add_command

pytest_plugins = ["cli_fixtures"]


def test_nodes(moor: Moor) -> None:
    said = moor("nodes")
    assert said.exit_code == 0, said.stderr
    assert "silent for 71 s" in said.stdout
    assert "240 of 256" in said.stdout
    assert "100 GiB of 128 GiB" in said.stdout
    assert "0 of 1" in said.stdout
    assert "580.65.06, CUDA up to 13.0" in said.stdout
    assert "rack-1: NVIDIA H200, 150 GiB, GPU-4711, in use" in said.stdout
    assert "rack-1: GPUs are handed over directly: the engine has no NVIDIA runtime." in said.stdout
    assert "rack-1: Its driver is unloaded.\n  On rack-1: nvidia-smi -pm 1" in said.stdout
    assert json.loads(moor("nodes", "--json").stdout)[0]["gpus"][0]["device_id"] == "GPU-4711"


def test_proposed_instance_types_come_with_the_command_that_adds_them(moor: Moor, fake: FakeMoorage) -> None:
    said = moor("operator", "instance-type", "proposals").stdout
    assert "smaller than what h200-141gb promises" in said
    command = next(line.strip() for line in said.splitlines() if line.startswith("  moor "))
    assert moor(*shlex.split(command)[1:]).exit_code == 0
    sent = fake.requests[-1][3]
    assert {
        name: sent[name] for name in ("name", "gpu_model", "gpu_count", "vcpu_millis", "memory_bytes")
    } == {
        name: TYPE_PROPOSAL[name]
        for name in ("name", "gpu_model", "gpu_count", "vcpu_millis", "memory_bytes")
    }
    assert sent["price_per_hour_microusd"] == 4_990_000


def test_a_proposed_type_without_a_price_asks_for_one(moor: Moor, fake: FakeMoorage) -> None:
    """What is shown can be pasted: it has no word in it that somebody has to replace first."""
    command = shlex.split(add_command({**TYPE_PROPOSAL, "price_per_hour_microusd": None}))
    refused = moor(*command[1:])
    assert refused.exit_code == 2
    assert "Give the price of one replica per hour" in refused.stderr
    assert moor(*command[1:], "--json", stdin="2.50\n").exit_code == 2
    assert moor(*command[1:], stdin="2.50\n").exit_code == 0
    assert fake.requests[-1][3]["price_per_hour_microusd"] == 2_500_000


def test_the_catalogue(moor: Moor, fake: FakeMoorage) -> None:
    assert "1 × NVIDIA H200" in moor("operator", "instance-type", "list").stdout
    price = moor("operator", "instance-type", "set-price", "cpu-small", "0.0125")
    assert price.stdout == "cpu-small: 0.0125 USD per replica and hour.\n"
    assert moor("operator", "instance-type", "disable", "cpu-small").stdout.endswith("hour, not offered.\n")
    assert moor("operator", "instance-type", "enable", "cpu-small").exit_code == 0
    assert fake.asked("PATCH", "/operator/instance-types/cpu-small") == [
        {"price_per_hour_microusd": 12_500},
        {"enabled": False},
        {"enabled": True},
    ]
    sizes = ("--vcpu", "8", "--memory", "32", "--gpu", "NVIDIA L4")
    added = moor("operator", "instance-type", "add", "l4", "0.80", *sizes)
    assert added.stdout == "l4: 0.80 USD per replica and hour.\n"
    [body] = fake.asked("POST", "/operator/instance-types")
    assert (body["gpu_model"], body["gpu_count"], body["memory_bytes"]) == ("NVIDIA L4", 1, 32 * 2**30)
    assert moor("operator", "instance-type", "delete", "l4").stdout == "Deleted l4.\n"


def test_initial_credit(moor: Moor, fake: FakeMoorage) -> None:
    path = "/operator/organizations/org_one/initial-credit"
    given = {"id": "txn_1", "organization_id": "org_one", "amount_microusd": 20_000_000}
    fake.refusals["POST", path] = (201, given)
    assert moor("operator", "initial-credit", "org_one").stdout == "Gave org_one 20.00 USD (txn_1).\n"
    assert json.loads(moor("operator", "initial-credit", "org_one", "--json").stdout)["id"] == "txn_1"


def test_wrong_amounts(moor: Moor, fake: FakeMoorage) -> None:
    for amount in ("free", "0", "-1", "0.0000001", "NaN"):
        assert moor("operator", "instance-type", "set-price", "cpu-small", "--", amount).exit_code == 2
    assert fake.asked("PATCH", "/operator/instance-types/cpu-small") == []


def test_more_replicas_asked_for_and_decided(moor: Moor, fake: FakeMoorage) -> None:
    asked = moor("replica-limit", "ask", "40", "--note", "launch day")
    assert "rlr_1" in asked.stdout
    assert fake.asked("POST", "/projects/prj_one/replica-limit-requests") == [
        {"replicas": 40, "note": "launch day"}
    ]
    assert "launch day" in moor("replica-limit", "list").stdout
    assert "rlr_1" in moor("operator", "replica-limit", "list").stdout
    assert fake.queries("/operator/replica-limit-requests")[0]["state"] == "pending"
    granted = moor("operator", "replica-limit", "grant", "rlr_1")
    assert granted.stdout == "rlr_1 is approved; a container of the project may have 40.\n"
    refused = moor("operator", "replica-limit", "refuse", "rlr_1", "--answer", "All taken.")
    assert "refused" in refused.stdout
    assert fake.asked("POST", "/operator/replica-limit-requests/rlr_1/refuse") == [{"answer": "All taken."}]


def test_preflight(moor: Moor, fake: FakeMoorage, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    secret = ("--username", "ann", "--password-file", str(password))
    found = moor("preflight", "--image", "ghcr.io/acme/chat:1", "--port", "9000", *secret)
    assert found.exit_code == 0, found.stderr
    assert "sha256:4711" in found.stdout
    assert "exposes 8000, not 9000" in found.stdout
    [body] = fake.asked("POST", "/projects/prj_one/containers/preflight")
    assert body["registry"] == {"provider": "github", "username": "ann", "password": "secret"}
    assert "secret" not in found.stdout
    assert "python3 -m 'serve it'" in found.stdout
    absent = moor("preflight", "--image", "ghcr.io/acme/absent:1", "--json")
    assert (absent.exit_code, json.loads(absent.stderr)["error"]["code"]) == (1, "image_not_found")


def test_revenue(moor: Moor, fake: FakeMoorage) -> None:
    day = {
        "day": "2026-11-15",
        "hours": 3,
        "usage_microusd": 15_000,
        "card_microusd": 50_000_000,
        "bank_transfer_microusd": 0,
        "granted_microusd": 20_000_000,
        "refunded_microusd": -1_500_000,
    }
    fake.refusals["GET", "/operator/revenue"] = (200, {"items": [day]})
    shown = moor("operator", "revenue", "--from", "2026-11-01").stdout.splitlines()[1].split()
    assert shown == ["2026-11-15", "3", "0.015", "50.00", "0.00", "20.00", "-1.50"]
    assert fake.queries("/operator/revenue") == [{"from": "2026-11-01"}]


def test_audit(moor: Moor, fake: FakeMoorage) -> None:
    record = {
        "id": "aud_1",
        "at": "2026-11-15T03:04:05Z",
        "actor": "usr_1",
        "actor_email": "ada@example.com",
        "actor_name": None,
        "action": "machine.drain",
        "target": "mch_1",
        "details": {"to": "draining", "from": "active", "forced": False},
    }
    by_itself = {**record, "id": "aud_2", "actor": "mch_1", "actor_email": None, "action": "machine.leave"}
    fake.refusals["GET", "/operator/audit"] = (200, {"items": [record, by_itself], "next_cursor": None})
    shown = moor("operator", "audit").stdout
    assert "ada@example.com" in shown
    assert "from active, to draining" in shown
    assert "forced" not in shown
    assert "mch_1" in shown.splitlines()[2].split("machine.leave")[0], "who did it, where it was no person"
    assert len(moor("operator", "audit", "--limit", "1").stdout.splitlines()) == 2
