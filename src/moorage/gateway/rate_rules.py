"""How many requests a key and an organization may send, as HAProxy's configuration spells it. Pure.

A limit holds for the whole installation. Where several gateways serve it, each lets in a share (`limit_sharing`): the limit divided by
the number that stands in a map, or what stands beside the counter in its table, which the agent writes there.
"""

from dataclasses import dataclass
from enum import StrEnum

from moorage.gateway.answers import endpoint_error
from moorage.gateway.config import GatewayConfig
from moorage.gateway.map_values import KEY_ID, KEY_LENGTH_WITHOUT_RATE, KEY_ORGANIZATION, KEY_OWN_RATE

LIMITS_MAP = "limits.map"
DIVISOR_KEY = "divided_by"
_WINDOW_S = 10
_OWN_WINDOW_S = 60


class Scope(StrEnum):
    """Whose requests a limit counts."""

    KEY = "key"
    ORGANIZATION = "organization"
    OWN_LIMIT = "own_limit"
    """Of a key that has a limit of its own."""


@dataclass(frozen=True)
class RateTable:
    name: str
    window_s: int
    counter: int

    @property
    def kept_s(self) -> int:
        """An entry that nobody touches is gone then, and a share with it."""
        return 3 * self.window_s


RATE_TABLES = {
    Scope.KEY: RateTable("key_requests", _WINDOW_S, 0),
    Scope.ORGANIZATION: RateTable("organization_requests", _WINDOW_S, 1),
    Scope.OWN_LIMIT: RateTable("limited_keys", _OWN_WINDOW_S, 2),
}


def usual_limits(config: GatewayConfig) -> dict[Scope, int]:
    """Of every key and organization, within their window."""
    return {
        Scope.KEY: config.key_requests_per_s * RATE_TABLES[Scope.KEY].window_s,
        Scope.ORGANIZATION: config.organization_requests_per_s * RATE_TABLES[Scope.ORGANIZATION].window_s,
    }


def limit_rates(config: GatewayConfig) -> str:
    limits = usual_limits(config)
    of_key, of_organization = limits[Scope.KEY], limits[Scope.ORGANIZATION]
    refuse = f"http-request return status 429 {endpoint_error('rate_limited')} hdr Retry-After"
    return f"""\
    # 4. Not more than its share. Only what is admitted counts: counting the refused too would lock a client out for good.
    http-request track-sc0 var(txn.key),{KEY_ID} table key_requests
    http-request track-sc1 var(txn.key),{KEY_ORGANIZATION} table organization_requests
    {refuse} 1 if {{ sc0_gpc0_rate ge {of_key} }} or {{ sc1_gpc0_rate ge {of_organization} }}
    # Where other gateways let in requests too: what was agreed on for this key or organization, else an equal part.
    http-request set-var(txn.gateways) str({DIVISOR_KEY}),map_str_int({config.map_path(LIMITS_MAP)})
    acl one_of_several var(txn.gateways) -m found
    http-request set-var(txn.key_share) sc0_get_gpt0 if one_of_several
    http-request set-var(txn.organization_share) sc1_get_gpt0 if one_of_several
    {refuse} 1 if {{ var(txn.key_share) -m int eq 0 }} {{ sc0_gpc0_rate,mul(txn.gateways) ge {of_key} }} or {{ var(txn.key_share) -m int gt 0 }} {{ sc0_gpc0_rate,sub(txn.key_share) ge 0 }}
    {refuse} 1 if {{ var(txn.organization_share) -m int eq 0 }} {{ sc1_gpc0_rate,mul(txn.gateways) ge {of_organization} }} or {{ var(txn.organization_share) -m int gt 0 }} {{ sc1_gpc0_rate,sub(txn.organization_share) ge 0 }}
    # A key may have a limit of its own besides, per minute; it stands last in the map. A share comes free every 60/limit s.
    http-request set-var(txn.own_rate) var(txn.key),{KEY_OWN_RATE} if {{ var(txn.key) -m len gt {KEY_LENGTH_WITHOUT_RATE} }}
    acl own_rate var(txn.own_rate) -m found
    http-request track-sc2 var(txn.key),{KEY_ID} table limited_keys if own_rate
    http-request set-var(txn.own_share) sc2_get_gpt0 if own_rate one_of_several
    {refuse} %[int({_OWN_WINDOW_S}),mul(txn.gateways),div(txn.own_rate),add(1)] if {{ var(txn.own_share) -m int eq 0 }} {{ sc2_gpc0_rate,mul(txn.gateways),sub(txn.own_rate) ge 0 }}
    http-request set-var(txn.own_rate) var(txn.own_share) if {{ var(txn.own_share) -m int gt 0 }}
    {refuse} %[int({_OWN_WINDOW_S}),div(txn.own_rate),add(1)] if {{ sc2_gpc0_rate,sub(txn.own_rate) ge 0 }}
    http-request sc-inc-gpc0(2)
    http-request sc-inc-gpc0(0)
    http-request sc-inc-gpc0(1)"""


def rate_tables() -> str:
    """`gpt0` is this gateway's share of the limit, 0 where none was agreed on."""
    return "\n".join(
        f"""\
backend {table.name} from base
    stick-table type string len 24 size 100k expire {table.kept_s}s store gpc0,gpc0_rate({table.window_s}s),gpt0
"""
        for table in RATE_TABLES.values()
    )
