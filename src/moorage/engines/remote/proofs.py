"""What a machine is asked to prove, and what it answers: values on the wire, beside those of the `Engine` protocol."""

from dataclasses import dataclass

PROVE, ANSWER_FOR = "prove", "answer_for"
"""The two calls: to fill, and then to answer for what was filled."""
GAVE_WAY = "proof_gave_way"
"""The code of a proof that ended because a replica began there."""


@dataclass(frozen=True)
class GpuOrder:
    device_id: str
    memory_bytes: int
    """To be filled, the sums included."""
    rounds: int
    """Of mixing, for each number."""
    threads: int
    """That add up what is filled, each its share of it."""
    passes: int
    """So many times over."""


@dataclass(frozen=True)
class ProofOrder:
    nonce: str
    """32 hexadecimal digits that nobody knew before."""
    memory_bytes: int
    iterations: int
    """How much each row of memory costs to make."""
    gpus: tuple[GpuOrder, ...] = ()


@dataclass(frozen=True)
class GpuFilled:
    device_id: str
    sums_root: str
    """Of all sums, in leaves of so many threads' each: said before it is known which will be asked for."""


@dataclass(frozen=True)
class ProofFilled:
    gpus: tuple[GpuFilled, ...] = ()


@dataclass(frozen=True)
class GpuQuestion:
    device_id: str
    rows: tuple[int, ...]
    leaves: tuple[int, ...]
    """Of sums."""


@dataclass(frozen=True)
class ProofQuestion:
    """Chosen when everything is filled."""

    salt: str
    rows: tuple[int, ...]
    gpus: tuple[GpuQuestion, ...] = ()


@dataclass(frozen=True)
class SumsLeaf:
    sums: str
    """Hexadecimal, four bytes each, the least first."""
    way: str
    """To the root that was said: the hashes beside it."""


@dataclass(frozen=True)
class GpuAnswer:
    device_id: str
    rows: tuple[str, ...]
    leaves: tuple[SumsLeaf, ...]


@dataclass(frozen=True)
class ProofAnswer:
    rows: tuple[str, ...]
    """Of each, the SHA-256 of salt and row."""
    gpus: tuple[GpuAnswer, ...] = ()
