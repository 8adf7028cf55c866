"""When the provider is asked again what became of a payment. Pure.

Events are hints, and a hint may be lost for good: the receiver was down for longer than the provider tries, or the
secret changed. So every payment is asked about until nothing more can become of it. Of a page, that is for the provider to
say: it closes one by its own clock, and ours may jump.
"""

from datetime import timedelta

PAGE_LIVES = timedelta(hours=25)
"""The provider closes a page after 24 hours."""
BANKS_TAKE_BACK_WITHIN = timedelta(days=180)

_WHILE_OPEN = (
    (timedelta(minutes=10), timedelta(minutes=1)),
    (timedelta(hours=2), timedelta(minutes=10)),
    (PAGE_LIVES, timedelta(hours=1)),
)
_ONCE_PAID = (
    (timedelta(days=14), timedelta(days=1)),
    (BANKS_TAKE_BACK_WITHIN, timedelta(days=7)),
)
"""For refunds and disputes whose event was lost."""


def ask_again_after(age: timedelta, *, paid: bool, page_open: bool = False) -> timedelta | None:
    """None: nothing more is expected of a payment of this age. `page_open`: the provider says that it can be paid yet."""
    pauses = _ONCE_PAID if paid else _WHILE_OPEN
    longest = _WHILE_OPEN[-1][1] if page_open and not paid else None
    return next((pause for until, pause in pauses if age < until), longest)
