"""Which share of a limit each of several gateways lets in. Pure.

A limit of an installation is a number of requests within a window. Each gateway counts what it lets in itself, so the gateways divide
the limit: what they may let in adds up to it. Without an agreement each has an equal part, `limit / divisor`. Of a limit that somebody
uses much of, each says what it *holds*: the share that it enforces, or what it has let in within the window if that is more. Whoever
wants more takes what nobody holds; whoever needs less lowers its share first and says so afterwards. So at no time do shares and what
was let in before add up to more than the limit, whoever dies in between. A share is never less than one request.

A gateway that cannot say anything gives back what it has beyond the equal part, and later has exactly that; the others count on it.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from moorage.gateway.layout import MAX_LIMIT_DIVISOR

NOTHING_YET = MAX_LIMIT_DIVISOR
"""The divisor of a gateway that joins: the others have yet to make room for it."""
ALONE_AFTER_S = 10.0
"""Without an agreement for so long, a gateway enforces no more than the equal part."""
_SURELY_ALONE_S = 20.0
"""And a window later no less either: by then the others have let it have that."""
_FLOOR_PER_GATEWAY = 20
"""Of the equal part, what one that nobody uses keeps: one in so many."""


@dataclass(frozen=True)
class Limit:
    requests: int
    window_s: int


@dataclass(frozen=True)
class Part:
    """What a gateway says of a limit."""

    held: int
    used: int
    """Let in within the window."""
    hungry: bool
    """It would let in more if it might."""


@dataclass(frozen=True)
class Peer:
    """Another gateway."""

    divisor: int | None
    """None: of a version that shares nothing."""
    silent_s: float


@dataclass(frozen=True)
class Decision:
    share: int | None
    """To enforce from now on; None: the equal part."""
    part: Part | None
    """To say; None: nothing, because it is the equal part and nobody needs more."""


def equal_part(limit: int, divisor: int) -> int:
    return -(-limit // divisor)


def decide(
    limit: Limit,
    divisor: int,
    enforced: int | None,
    used: int,
    peers: Mapping[str, Peer],
    parts: Mapping[str, Part],
    *,
    divisor_falls: bool = False,
) -> Decision:
    """`enforced` is this gateway's share, None where it is the equal part; `parts` are those of its peers. Where the equal part is
    about to grow, it has to be said of this limit that it does not."""
    usual = equal_part(limit.requests, divisor)
    share = usual if enforced is None else enforced
    if not peers or not (parts or enforced is not None or 2 * used >= share):
        return Decision(None, None)
    mine = Part(share, used, _is_hungry(used, share))
    talking = {name: part for name, part in parts.items() if peers[name].silent_s <= ALONE_AFTER_S}
    calm = all(4 * part.used < usual for part in (mine, *talking.values()))
    target = usual if calm else _target(limit.requests, mine, talking, peers)
    others = sum(_held_by(limit, peer, parts.get(name), len(peers) + 1) for name, peer in peers.items())
    following = max(1, min(target, limit.requests - others))
    # Equal parts are rounded up: of an odd limit somebody cannot hold all of one.
    least = limit.requests // divisor
    if calm and least <= share <= usual and least <= following and not divisor_falls:
        return Decision(None, None)
    # What is lowered now is held until the next time: only then is it known what was let in before.
    return Decision(following, Part(max(following, share, used), used, mine.hungry))


def decide_alone(limit: Limit, divisor: int, enforced: int, silent_s: float) -> int | None:
    """What to enforce without having agreed on anything for so long; None: the equal part."""
    usual = equal_part(limit.requests, divisor)
    if silent_s <= ALONE_AFTER_S:
        return enforced
    return None if silent_s > _SURELY_ALONE_S + limit.window_s else min(enforced, usual)


def next_divisor(divisor: int, peers: Collection[Peer]) -> int:
    """As many as there are. A smaller part can be had at any time, a larger one as far as the others have left it."""
    gateways = len(peers) + 1
    if gateways >= divisor:
        return gateways
    left = 1 - sum(Fraction(1, _divides_by(peer, gateways)) for peer in peers)
    return min(divisor, max(gateways, math.ceil(1 / left))) if left > 0 else divisor


def _divides_by(peer: Peer, gateways: int) -> int:
    """One that had all of each limit and is not heard of any more was probably replaced: its database was restored elsewhere, or
    its machine is gone. It would never give anything back, so whoever waited for it would refuse what comes for nothing."""
    if peer.divisor is None or (peer.divisor == 1 and peer.silent_s > _SURELY_ALONE_S):
        return gateways
    return peer.divisor


def _held_by(limit: Limit, peer: Peer, part: Part | None, gateways: int) -> int:
    usual = equal_part(limit.requests, _divides_by(peer, gateways))
    if part is None or peer.divisor is None or peer.silent_s > _SURELY_ALONE_S + limit.window_s:
        return usual
    return part.held if peer.silent_s <= ALONE_AFTER_S else max(part.held, usual)


def _target(limit: int, mine: Part, talking: Mapping[str, Part], peers: Mapping[str, Peer]) -> int:
    """Everybody gets what it uses and a little more, if that is no more than an equal part of what the others leave; what is
    left goes to those who use much."""
    gateways = len(peers) + 1
    floor = max(1, limit // (_FLOOR_PER_GATEWAY * gateways))
    silent = [peer for peer in peers.values() if peer.divisor is None or peer.silent_s > ALONE_AFTER_S]
    kept = sum(equal_part(limit, _divides_by(peer, gateways)) for peer in silent)
    left = limit - kept - (len(peers) - len(silent) - len(talking)) * floor
    wishes = sorted(_wish(part, limit, floor) for part in talking.values())
    wish = _wish(mine, limit, floor)
    given: list[int] = []
    for position, wished in enumerate(sorted([*wishes, wish])):
        given.append(max(floor, min(wished, (left - sum(given)) // (len(wishes) + 1 - position))))
    got = given[sorted([*wishes, wish]).index(wish)]
    spare = max(0, left - sum(given))
    return got + spare * got // sum(given)


def _wish(part: Part, limit: int, floor: int) -> int:
    return limit if part.hungry else max(floor, part.used + part.used // 6)


def _is_hungry(used: int, share: int) -> bool:
    return 10 * used >= 9 * share
