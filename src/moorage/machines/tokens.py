"""The secrets between a machine and its installation, each good for one thing. Pure but for the randomness.

A *join token* is good for one machine, once, for 30 minutes. A machine makes two secrets of its own and brings them when
it joins: the *credential*, which Moorage presents to it from then on, and the *machine's secret*, by which Moorage knows it.
So the answer to a join holds no secret, and a repeated join is known by bringing the same ones.
"""

from datetime import datetime, timedelta

from moorage.identity.tokens import is_well_formed, new_token

JOIN_PREFIX = "moor_join_"
CREDENTIAL_PREFIX = "moor_node_"
MACHINE_PREFIX = "moor_mch_"
LIFETIME = timedelta(minutes=30)


def new_join_token() -> str:
    return new_token(JOIN_PREFIX)


def is_join_token(text: str) -> bool:
    return is_well_formed(text, JOIN_PREFIX)


def is_credential(text: str) -> bool:
    return is_well_formed(text, CREDENTIAL_PREFIX)


def is_machine_secret(text: str) -> bool:
    return is_well_formed(text, MACHINE_PREFIX)


def admits(*, expires_at: datetime, used_with: bytes | None, brought: bytes, now: datetime) -> bool:
    """Whether a token lets somebody in who brings these secrets: somebody new once, and the same one again, whose answer
    was lost. Not even that one after it has run out."""
    return now < expires_at and used_with in (None, brought)
