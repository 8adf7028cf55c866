"""What owners should have, by somebody who knows nothing of SQL, intervals or idempotency keys: they count coins and seconds.

Credit is a heap of coins, each with the payment it came with and its place in it. An hour is sixty seconds, and each of them is given
to somebody by looking at it. It is slow, and cannot be wrong in the ways in which the product can be.
"""

from dataclasses import dataclass, field
from fractions import Fraction

COIN = 10_000
"""In micro-dollars: a cent, because payouts are in whole cents."""
SECONDS = 60
RANKS = {"given": 0, "card": 1, "transfer": 2}
HOLD_DAYS = {"card": 120, "transfer": 7}
FORMER_MEMBERS_DAYS = 120


@dataclass
class Lot:
    source: str
    number: int
    coins: int
    taken_back: int = 0
    """The last ones of it are bad."""


@dataclass(frozen=True)
class Coin:
    lot: int
    place: int


@dataclass(frozen=True)
class Seen:
    """A gateway saw it in these seconds, of the container's time."""

    replica: str
    machine: str
    owner: str
    slot: int
    first: int
    until: int


@dataclass
class Hour:
    id: str
    buyer: str
    coins: list[Coin]
    first: int
    """The second of the container's time in which it begins."""
    slots: list[int]
    """Where it is, in each of its seconds."""
    seen: list[Seen]
    """Of its container."""
    age_days: float


@dataclass
class Earning:
    hour: Hour
    owner: str
    machine: str
    served: int
    void: bool = False
    matured: set[str] = field(default_factory=set)
    look: bool = True
    """Something happened that may change what it is worth."""
    worth: dict[str, int] = field(default_factory=lambda: {"card": 0, "transfer": 0})


class Oracle:
    def __init__(self, share_percent: int) -> None:
        self.share_percent = share_percent
        self.lots: list[Lot] = []
        self.purses: dict[str, list[Coin]] = {}
        self.hours: list[Hour] = []
        self.earnings: dict[tuple[str, str], Earning] = {}
        self.paid: dict[str, int] = {}
        self.people: dict[str, set[str]] = {}
        self.left_days_ago: dict[tuple[str, str], float] = {}
        self.cards: dict[str, set[str]] = {}
        self.voided_days_ago: dict[str, list[float]] = {}

    # Credit

    def comes_in(self, organization: str, source: str, coins: int) -> int:
        self.lots.append(Lot(source, len(self.lots), coins))
        number = len(self.lots) - 1
        self.purses.setdefault(organization, []).extend(Coin(number, place) for place in range(coins))
        return number

    def spend(self, organization: str, coins: int) -> list[Coin] | None:
        purse = self.purses.get(organization, [])
        if len(purse) < coins:
            return None
        purse.sort(key=lambda coin: (RANKS[self.lots[coin.lot].source], coin.lot, coin.place))
        spent, purse[:] = purse[:coins], purse[coins:]
        return spent

    def refund(self, organization: str, lot: int, coins: int) -> list[Coin]:
        """The coins that go back: those of the payment first, the last of each payment before its first."""
        purse = self.purses.get(organization, [])
        purse.sort(
            key=lambda coin: (coin.lot != lot, RANKS[self.lots[coin.lot].source], coin.lot, -coin.place)
        )
        back, purse[:] = purse[:coins], purse[coins:]
        return back

    def put_back(self, organization: str, coins: list[Coin]) -> None:
        """They have the last places of their lots again: those that are free."""
        for lot in {coin.lot for coin in coins}:
            number = sum(coin.lot == lot for coin in coins)
            taken = {coin.place for hour in self.hours for coin in hour.coins if coin.lot == lot}
            taken |= {coin.place for coin in self.purses[organization] if coin.lot == lot}
            free = [place for place in range(self.lots[lot].coins) if place not in taken]
            self.purses[organization] += [Coin(lot, place) for place in free[:number]]

    def taken_back(self, lot: int, coins: int) -> None:
        coins = min(coins, self.lots[lot].coins)
        if coins != self.lots[lot].taken_back:
            self.lots[lot].taken_back = coins
            for earning in self.earnings.values():
                earning.look |= any(coin.lot == lot for coin in earning.hour.coins)

    def is_good(self, coin: Coin) -> bool:
        lot = self.lots[coin.lot]
        return coin.place < lot.coins - lot.taken_back

    # Time

    def days_pass(self, days: float) -> None:
        for hour in self.hours:
            hour.age_days += days
        self.left_days_ago = {who: ago + days for who, ago in self.left_days_ago.items()}
        self.voided_days_ago = {
            one: [ago + days for ago in times] for one, times in self.voided_days_ago.items()
        }

    def void(self, machine: str) -> None:
        self.voided_days_ago.setdefault(machine, []).append(0)
        for earning in self.earnings.values():
            earning.look |= earning.machine == machine and earning.matured != {"card", "transfer"}

    # What it is worth

    def work(self) -> None:
        for hour in self.hours:
            self._settle(hour)
        for earning in self.earnings.values():
            due = {
                source
                for source, days in HOLD_DAYS.items()
                if source not in earning.matured and earning.hour.age_days >= days
            }
            if earning.look or due:
                held = earning.matured != {"card", "transfer"}
                earning.void |= held and self._is_void(earning)
                earning.worth = {source: self._worth(earning, source) for source in HOLD_DAYS}
                if not earning.void:
                    earning.matured |= due
                earning.look = False

    def held(self, owner: str) -> int:
        return sum(self._amounts(owner, matured=False))

    def payable(self, owner: str) -> int:
        return max(sum(self._amounts(owner, matured=True)) - self.paid.get(owner, 0), 0)

    def booked(self, owner: str) -> int:
        """What the owner's account should say."""
        return self.held(owner) + sum(self._amounts(owner, matured=True)) - self.paid.get(owner, 0)

    def _amounts(self, owner: str, *, matured: bool) -> list[int]:
        return [
            amount
            for earning in self.earnings.values()
            for source, amount in earning.worth.items()
            if earning.owner == owner and (source in earning.matured) == matured
        ]

    def _settle(self, hour: Hour) -> None:
        if any(key[0] == hour.id for key in self.earnings):
            return
        overlapping = [
            one for one in hour.seen if one.first < hour.first + SECONDS and one.until > hour.first
        ]
        came: dict[str, tuple[int, str]] = {}
        for one in overlapping:
            came[one.replica] = min(came.get(one.replica, (one.first, one.replica)), (one.first, one.replica))
        winners: dict[str, int] = {}
        for second in range(SECONDS):
            moment = hour.first + second
            there = {
                one.replica
                for one in overlapping
                if one.slot == hour.slots[second] and one.first <= moment < one.until
            }
            if there:
                winner = min(there, key=lambda replica: came[replica])
                winners[winner] = winners.get(winner, 0) + 1
        for replica, served in winners.items():
            one = next(one for one in overlapping if one.replica == replica)
            self.earnings[hour.id, replica] = Earning(hour, one.owner, one.machine, served)

    def _is_void(self, earning: Earning) -> bool:
        age = earning.hour.age_days
        voided = any(ago < age for ago in self.voided_days_ago.get(earning.machine, []))
        return voided or self._are_related(earning.owner, earning.hour.buyer, age)

    def _are_related(self, one: str, other: str, age_days: float) -> bool:
        def people(organization: str) -> set[str]:
            now = self.people.get(organization, set())
            return now | {
                person
                for (where, person), ago in self.left_days_ago.items()
                if where == organization and ago < age_days + FORMER_MEMBERS_DAYS
            }

        shared = (
            people(one) & people(other),
            self.cards.get(one, set()) & self.cards.get(other, set()),
        )
        return one == other or any(shared)

    def _worth(self, earning: Earning, source: str) -> int:
        if earning.void and source not in earning.matured:
            return 0
        good = sum(self.lots[coin.lot].source == source and self.is_good(coin) for coin in earning.hour.coins)
        return int(Fraction(good * COIN * self.share_percent * earning.served, 100 * SECONDS))
