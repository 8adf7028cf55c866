"""How a canary gets its share of a container's requests, as HAProxy's configuration spells it. Pure.

Weights cannot do it. `leastconn` looks at connections: idle servers take turns whatever they weigh, and a slow version would
get fewer requests than a fast one, just where the two are to be compared. Chance cannot either: of 10,000 requests at a
share of 50 %, one time in twenty it is off by more than a percentage point. So the requests of a slot are counted,
and of each hundred exactly as many as the share says are picked.

A server on trial has the weight 0: it takes no part in balancing, nor does it take requests that wait for the others, but
`use-server` reaches it. Where it refuses a connection, or is gone, `redispatch` balances the request among the others: a canary
that dies takes no request with it. Among several of its replicas the picked requests take turns.
"""

from moorage.gateway.connection_shares import CANARY_COUNTER
from moorage.gateway.map_values import CANARY_MARK, ROUTE_CANARY

CANARY_TABLE = "canary_requests"
_WHOLE = 100
_STRIDE = 37
"""The pattern begins elsewhere in each hundred: a client that asks two questions in turns shall not have one of them
answered by the canary every time. Any number without a divisor of 100 comes by every beginning."""

USE_PICKED_SERVER = "    use-server %[var(txn.server)] if { var(txn.server) -m found }"
"""HAProxy takes it in a backend only, and not from its defaults."""


def is_picked(number: int, percent: int) -> bool:
    """Whether the canary gets the n-th request, as the rules below have it. Of n × share modulo 100 exactly `share`
    values in any hundred are below the share, wherever they begin."""
    return (number * percent + number // _WHOLE * _STRIDE) % _WHOLE < percent


def pick_for_canary(canaries_map: str) -> str:
    """For containers that have their limits in the map, as all with a canary do: the others have left the rules before."""
    return f"""\
    http-request set-var(txn.canary) var(txn.limits),{ROUTE_CANARY}
    http-request allow unless {{ var(txn.canary) -m sub {CANARY_MARK} }}
    http-request track-sc{CANARY_COUNTER} be_name table {CANARY_TABLE}
    http-request set-var(txn.number) sc_inc_gpc0({CANARY_COUNTER})
    http-request set-var(txn.percent) var(txn.canary),field(1,{CANARY_MARK})
    http-request set-var(txn.replicas) var(txn.canary),field(2,{CANARY_MARK})
    http-request set-var(txn.begin) var(txn.number),div({_WHOLE}),mul({_STRIDE})
    acl picked var(txn.number),mul(txn.percent),add(txn.begin),mod({_WHOLE}),sub(txn.percent) lt 0
    http-request set-var(txn.turn) var(txn.number),mul(txn.percent),div({_WHOLE}),mod(txn.replicas) if picked
    http-request set-var(txn.server) be_name,concat(.,txn.turn),map_str({canaries_map}) if picked"""


def canary_table() -> str:
    """By slot. What a former owner of the slot counted only says where the pattern goes on."""
    return f"""
backend {CANARY_TABLE} from base
    stick-table type string len 16 size 100k expire 1h store gpc0
"""
