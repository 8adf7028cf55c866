"""Everything that is random, from one seed: ids and tokens, delays, faults, what users do."""

import contextlib
import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def seeded_secrets(seed: int) -> Iterator[None]:
    """The product's ids and tokens, and what libraries draw for themselves (pauses between tries). Nonces of ciphertexts stay random: nothing depends on them."""
    chance = random.Random(f"ids of {seed}")

    def choice(options: Sequence[Any]) -> Any:
        return options[chance.randrange(len(options))]

    replaced = {
        "choice": choice,
        "randbelow": chance.randrange,
        "token_bytes": lambda count=32: chance.randbytes(count or 32),
        "token_hex": lambda count=32: chance.randbytes(count or 32).hex(),
        "token_urlsafe": lambda count=32: chance.randbytes(count or 32).hex(),
    }
    drawn_before = random.getstate()
    random.seed(f"libraries of {seed}")
    before = {name: getattr(secrets, name) for name in replaced}
    try:
        for name, function in replaced.items():
            setattr(secrets, name, function)
        yield
    finally:
        random.setstate(drawn_before)
        for name, function in before.items():
            setattr(secrets, name, function)
