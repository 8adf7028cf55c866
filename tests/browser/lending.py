"""Machines that an organization lends, one in each state that there is, and what they earned."""

from datetime import datetime, timedelta
from typing import Any

from moorage.machines.states import MachineState
from moorage.machines.words import sentence
from tests.database.api_support import Api

PRICE_MICROUSD = 1_550_000
EARNED_MICROUSD = PRICE_MICROUSD * 70 // 100
"""Of an hour, by the usual share."""
Change = tuple[float, MachineState, MachineState | None]
"""Days ago, what it became, and what it was before it was lost."""

_A, _P, _L, _D = MachineState.ACTIVE, MachineState.PROBATION, MachineState.LOST, MachineState.DRAINING
_MACHINES: dict[str, tuple[MachineState, list[str], dict[str, Any], list[Change]]] = {
    "harbour-01": (
        _A,
        ["NVIDIA A100 80GB PCIe"] * 2,
        {"replicas": 2},
        [(60, _P, None), (59, _A, None), (19.2, MachineState.PAUSED, None), (18.9, _A, None)],
    ),
    "lab-l40s": (
        _D,
        ["NVIDIA L40S"] * 2,
        {"replicas": 1, "stopped_by": "owner"},
        [(40, _A, None), (14.1, _L, _A), (14.08, _A, None), (9, _D, None), (8, _A, None), (0.02, _D, None)],
    ),
    "attic-4090": (_P, ["NVIDIA GeForce RTX 4090"], {"replicas": 1}, [(0.2, _P, None)]),
    "cellar-l4": (MachineState.VERIFYING, ["NVIDIA L4"], {}, [(0.01, MachineState.VERIFYING, None)]),
    "garage-3090": (
        _L,
        ["NVIDIA GeForce RTX 3090"],
        {"state_before_loss": "probation"},
        [(25, _P, None), (24, _A, None), (0.2, _L, _A)],
    ),
    "shed-t4": (
        MachineState.BANNED,
        ["Tesla T4"],
        {"held_because": "It offers a GPU that it does not have."},
        [(12, _P, None), (3, MachineState.BANNED, None)],
    ),
}


async def add_lent_machines(api: Api, organization_id: str, now: datetime) -> dict[str, str]:
    """By name. Nobody looks after them here, so they are seen ahead of time."""
    ids = {}
    for name, (state, gpus, changes, history) in _MACHINES.items():
        standing = state if state in (_P, MachineState.VERIFYING) else _P if state is _L else _A
        is_proven = state is not MachineState.VERIFYING
        values = {
            "standing": standing,
            "message": sentence(state),
            "facts": {"gpus": gpus, "runtime": "runsc"},
            "state_since": now - timedelta(days=history[-1][0]),
            "seen_at": now - timedelta(hours=5) if state is _L else now + timedelta(hours=1),
            "proven_at": now - timedelta(hours=7) if is_proven else None,
            "proof_due_at": now + timedelta(hours=21) if is_proven else None,
            **changes,
        }
        ids[name] = await lend(api, organization_id, name, state, history, now, **values)
    return ids


async def lend(
    api: Api,
    organization_id: str,
    name: str,
    state: MachineState,
    history: list[Change],
    now: datetime,
    **values: Any,
) -> str:
    machine_id = await api.new_machine(
        state, infrastructure="community", owner_organization_id=organization_id, name=name, **values
    )
    for days_ago, became, before_loss in history:
        await api.execute(
            "INSERT INTO machine_state_changes (machine_id, at, state, before_loss) VALUES (:id, :at, :state, :before)",
            id=machine_id,
            at=now - timedelta(days=days_ago),
            state=became,
            before=before_loss,
        )
    return machine_id


async def add_earnings(
    api: Api,
    organization_id: str,
    machine_id: str,
    *,
    hours: int,
    are_held: bool = False,
    days_ago: int = 0,
) -> None:
    """One after the other until so many days ago, as they are settled: what each is worth, and its movement in the ledger. Paid by
    transfer, and payable unless they `are_held`."""
    about = {
        "owner": organization_id,
        "machine": machine_id,
        "first": days_ago * 24,
        "last": days_ago * 24 + hours - 1,
        "earned": EARNED_MICROUSD,
        "price": PRICE_MICROUSD,
        "held": are_held,
    }
    await api.execute(
        "INSERT INTO earnings (hour_id, replica_id, owner_organization_id, buyer_organization_id, machine_id, hour_began_at, "
        "hour_ended_at, served_us, length_us, price_microusd, share_percent, card_microusd, transfer_microusd, card_payable_at, "
        "transfer_payable_at, card_matured_at, transfer_matured_at) SELECT 'hour_' || CAST(:machine AS text) || n, 'rep_' || CAST(:machine AS text), CAST(:owner AS text), "
        "'org_buyer', CAST(:machine AS text), now() - (n + 1) * interval '1 hour', now() - n * interval '1 hour', 3600000000, 3600000000, "
        "CAST(:price AS bigint), 70, 0, CAST(:earned AS bigint), now() + interval '120 days', now() + (168 - n) * interval '1 hour', "
        "CASE WHEN CAST(:held AS bool) THEN NULL ELSE now() END, CASE WHEN CAST(:held AS bool) THEN NULL ELSE now() END "
        "FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n",
        **about,
    )
    await api.execute(
        "WITH booked AS (INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) "
        "SELECT 'txn_' || CAST(:machine AS text) || n, 'earn:' || CAST(:machine AS text) || n, 'earning', CAST(:owner AS text), now() - n * interval '1 hour', "
        "jsonb_build_object('machine_id', CAST(:machine AS text)) FROM generate_series(CAST(:first AS int), CAST(:last AS int)) n RETURNING id) "
        "INSERT INTO ledger_entries (transaction_id, account, amount_microusd) SELECT id, account, amount FROM booked, "
        "(VALUES ('usage', -CAST(:earned AS bigint)), ('earnings:' || CAST(:owner AS text), CAST(:earned AS bigint))) "
        "AS leg (account, amount)",
        **{name: about[name] for name in ("owner", "machine", "first", "last", "earned")},
    )
