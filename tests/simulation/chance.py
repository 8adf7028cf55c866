"""Everything that is random, from one seed: ids and tokens, delays, faults, what users do."""

import contextlib
import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from moorage.containers import capacity_repository


class _LowestFirst:
    """Ports are drawn at random so that one just let go is rarely the next; on some days rare things happen always."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        return list(population[:k])

    def choice(self, options: Sequence[int]) -> int:
        return options[0]


@contextlib.contextmanager
def seeded_secrets(seed: int) -> Iterator[None]:
    """The product's ids and tokens, the ports of replicas, and what libraries draw for themselves (pauses between tries).
    Nonces of ciphertexts stay random: nothing depends on them."""
    chance = random.Random(f"ids of {seed}")
    ports = capacity_repository.random
    if chance.random() < 0.5:
        capacity_repository.random = _LowestFirst()  # type: ignore[assignment]

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
        capacity_repository.random = ports
