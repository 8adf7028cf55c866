"""Mistakes with money: holds, hours, renewals."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import with_loader_criteria

from moorage.billing.renewals import reconciler as renewals
from moorage.billing.renewals import repository as renewals_repository
from moorage.containers.models import ContainerRow
from moorage.containers.reconciler import funding
from moorage.containers.reconciler import reconciler as containers
from moorage.ledger import hours_repository
from moorage.ledger.models import HourRow
from moorage.ledger.rules import Renewal
from tests.simulation.planted.bug import Bug, Patch, nothing, nothing_slowly, rewritten


def _what_is_bought_stays_held(patch: Patch) -> None:
    change = (
        "held_microusd = credit_accounts.held_microusd - spent.held",
        "held_microusd = credit_accounts.held_microusd",
    )
    patch(hours_repository, "_CAPTURE", rewritten(hours_repository._CAPTURE, change))


def _a_hold_is_spent_twice(patch: Patch) -> None:
    change = "credit_accounts.held_microusd - spent.held", "credit_accounts.held_microusd - 2 * spent.held"
    patch(hours_repository, "_CAPTURE", rewritten(hours_repository._CAPTURE, change))


def _renewals_are_free(patch: Patch) -> None:
    patch(renewals, "renew", nothing)


def _hours_without_entries(patch: Patch) -> None:
    """On both sides: entries that do not add up to zero are refused by Postgres itself."""
    broken = rewritten(
        hours_repository._RENEW,
        (", -price_microusd FROM bought", ", -price_microusd + 1 FROM bought"),
        ("'usage', price_microusd FROM bought", "'usage', price_microusd - 1 FROM bought"),
    )
    patch(hours_repository, "_RENEW", broken)


def _a_hold_is_forgotten(patch: Patch) -> None:
    change = "held_microusd = held_microusd - back.total", "held_microusd = held_microusd"
    patch(hours_repository, "_RELEASE", rewritten(hours_repository._RELEASE, change))


def _released_moves_nothing(patch: Patch) -> None:
    """The hour is given back, its price is not."""
    broken = rewritten(
        hours_repository._RELEASE,
        ("available_microusd + back.total", "available_microusd"),
        ("held_microusd - back.total", "held_microusd"),
    )
    patch(hours_repository, "_RELEASE", broken)


def _nothing_is_given_back(patch: Patch) -> None:
    patch(hours_repository, "release", nothing)


def _nothing_back_without_replicas(patch: Patch) -> None:
    """What failed, or was deleted, before it had a replica."""
    fund = funding.Funding.fund

    async def fund_replicas(self: Any, session: Any, loaded: Any, plan: Any, **more: Any) -> Any:
        if not loaded.replicas and not plan.create_slots:
            return funding.Funded()
        return await fund(self, session, loaded, plan, **more)

    patch(funding.Funding, "fund", fund_replicas)


def _ready_is_never_bought(patch: Patch) -> None:
    patch(hours_repository, "capture", nothing)


def _renewals_sleep(patch: Patch) -> None:
    patch(renewals.RenewalsReconciler, "reconcile", nothing_slowly)


def _renewals_expect_somebody(patch: Patch) -> None:
    """What is due serves, they think, and stumble over what was stopped."""
    decide = renewals.renewal

    def surely(*, serves: bool, comes_up: bool, **more: Any) -> Any:
        assert serves or comes_up, "whoever is due is there"
        return decide(serves=serves, comes_up=comes_up, **more)

    patch(renewals, "renewal", surely)


def _only_what_is_to_run_is_asked_about(patch: Patch) -> None:
    """Nothing is bought for what is stopped, they think, so nobody needs to look at its hours."""
    to_run = select(ContainerRow.id).where(ContainerRow.desired_state == "running")
    only = with_loader_criteria(HourRow, HourRow.container_id.in_(to_run))

    @dataclass(frozen=True)
    class Narrowed:
        session: Any

        async def execute(self, query: Any) -> Any:
            return await self.session.execute(query.options(only))

    def narrowed(ask: Any) -> Any:
        return lambda session, *more: ask(Narrowed(session), *more)

    for name in ("due_organizations", "due_containers"):
        patch(renewals_repository, name, narrowed(getattr(renewals_repository, name)))


def _renewals_look_at_nobody(patch: Patch) -> None:
    patch(renewals, "renewal", lambda **_: Renewal.BUY)


def _the_past_is_charged(patch: Patch) -> None:
    """What passed while nobody was there to renew."""
    patch(renewals, "next_hour", lambda expires_at, _, hour: (expires_at, expires_at + hour))


def _what_is_missing_is_paid(patch: Patch) -> None:
    patch(containers, "record_presence", nothing)


def _hours_overlap(patch: Patch) -> None:
    after = renewals.next_hour

    def too_early(expires_at: Any, now: Any, hour: Any) -> Any:
        begins_at, ends_at = after(expires_at, now, hour)
        return begins_at - hour / 2, ends_at - hour / 2

    patch(renewals, "next_hour", too_early)


def _the_hour_before_is_forgotten(patch: Patch) -> None:
    """A pass after a gap buys for what serves, whose hour renewals have yet to follow; they do so as well."""
    buy = funding.slots_to_buy

    def over_is_unpaid(serving: Any, newly_ready: Any, hours: Any, instance_type: Any, now: Any) -> Any:
        return buy(serving, serving, hours, instance_type, now)

    async def leave_open(*_: Any) -> None:
        return None

    patch(funding, "slots_to_buy", over_is_unpaid)
    patch(hours_repository, "close", leave_open)


def _holds_cost_nothing(patch: Patch) -> None:
    change = "available_microusd = available_microusd - :total, ", ""
    patch(hours_repository, "_HOLD", rewritten(hours_repository._HOLD, change))


def _on_credit(patch: Patch) -> None:
    """Whether there is enough was looked at before, they think; meanwhile somebody else spent it, or the price rose."""
    hold = rewritten(hours_repository._HOLD, (" AND available_microusd >= :total", ""))
    renew = rewritten(hours_repository._RENEW, (" AND available_microusd >= :price", ""))
    patch(hours_repository, "_HOLD", hold)
    patch(hours_repository, "_RENEW", renew)


BUGS = (
    Bug("what is bought stays held", ("holds are accounted for",), _what_is_bought_stays_held),
    Bug(
        "a hold is spent twice",
        ("never below zero",),
        _a_hold_is_spent_twice,
        without=("credit_accounts", "ck_credit_accounts_held_not_negative"),
    ),
    Bug("renewals are free", ("what serves is paid",), _renewals_are_free),
    Bug("a renewal books a micro-dollar too little", ("ledger adds up",), _hours_without_entries),
    Bug(
        "a released hold stays in the account",
        ("ledger adds up",),
        _a_hold_is_forgotten,
        needs=("create", "delete", "suspend"),
    ),
    Bug(
        "a released hold moves no money",
        ("holds are accounted for",),
        _released_moves_nothing,
        needs=("create", "delete", "suspend"),
    ),
    Bug(
        "holds are never given back",
        ("no hold without a reason",),
        _nothing_is_given_back,
        needs=("create", "stop", "suspend"),
    ),
    Bug(
        "what never had a replica keeps its hold",
        ("no hold without a reason", "nothing is left"),
        _nothing_back_without_replicas,
        needs=("create",),
    ),
    Bug("what becomes ready is never bought", ("what serves is paid",), _ready_is_never_bought),
    Bug("renewals decide nothing", ("what serves is paid",), _renewals_sleep),
    Bug(
        "renewals expect somebody to serve",
        ("every hour is decided",),
        _renewals_expect_somebody,
        needs=("stop",),
    ),
    Bug(
        "hours of what is stopped are nobody's business",
        ("every hour is decided",),
        _only_what_is_to_run_is_asked_about,
        needs=("stop",),
    ),
    Bug("renewals look at nobody", ("no hour unserved",), _renewals_look_at_nobody, needs=("stop",)),
    Bug(
        "what passed unpaid is made up for",
        ("no hour unserved",),
        _the_past_is_charged,
        needs=("controller away",),
    ),
    Bug("what is missing is paid", ("no hour unserved",), _what_is_missing_is_paid, needs=("engine wiped",)),
    Bug("the next hour begins too early", ("no hour twice",), _hours_overlap),
    Bug(
        "a gap is bought twice",
        ("no hour twice",),
        _the_hour_before_is_forgotten,
        without=("hours", "uq_hours_live_slot"),
        needs=("controller away",),
    ),
    Bug("holds cost nothing", ("ledger adds up",), _holds_cost_nothing),
    Bug(
        "hours on credit",
        ("never below zero",),
        _on_credit,
        without=("credit_accounts", "ck_credit_accounts_available_not_negative"),
        needs=("raise the price",),
    ),
)
