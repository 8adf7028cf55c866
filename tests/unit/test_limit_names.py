"""Of which limits gateways talk, where somebody has many."""

import pytest

from moorage.gateway import limit_shares
from moorage.gateway.limit_shares import names_to_decide
from moorage.gateway.limit_shares_repository import Standing
from moorage.gateway.limit_sharing import Part
from moorage.gateway.rate_rules import Scope
from moorage.gateway.rate_tables import Counted, LimitName


def test_whoever_has_many_keys_takes_no_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_shares, "MOST_SHARED", 10)
    theirs = {LimitName(Scope.OWN_LIMIT, f"key_{number}"): Counted(1, None, False) for number in range(100)}
    busy = LimitName(Scope.OWN_LIMIT, "key_busy")
    elsewhere = {
        LimitName(scope, "other"): Counted(5, None, False) for scope in (Scope.KEY, Scope.ORGANIZATION)
    }
    enforced = LimitName(Scope.OWN_LIMIT, "key_enforced")
    counted = {**theirs, busy: Counted(900, None, False), enforced: Counted(0, 3, False), **elsewhere}
    part = Part(1, 1, hungry=True)
    own, peers = LimitName(Scope.OWN_LIMIT, "key_own"), LimitName(Scope.OWN_LIMIT, "key_peers")
    standing = Standing(own={own: part}, parts={peers: {"gtw_other": part}})
    names = names_to_decide(counted, standing, lambda name, used: used / (1000 if name == busy else 10))
    assert {busy, enforced, own, peers, *elsewhere} <= names
    assert len([name for name in names if name.scope is Scope.OWN_LIMIT]) == 10


def test_what_is_enforced_or_was_said_is_always_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be held for good."""
    monkeypatch.setattr(limit_shares, "MOST_SHARED", 10)
    counted = {LimitName(Scope.KEY, f"key_{number}"): Counted(1, 5, False) for number in range(30)}
    assert names_to_decide(counted, Standing(), lambda _name, _used: 0.0) == counted.keys()
