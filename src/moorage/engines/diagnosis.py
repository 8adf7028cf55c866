"""What can be asked about a replica's network from inside it, and what comes back. Values only."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    CONNECTED = "connected"
    REFUSED = "refused"
    """Somebody was there, and answered that nothing listens."""
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    """There is no way to it, said the machine or a router."""


@dataclass(frozen=True)
class Destination:
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class NetworkQuestions:
    names: tuple[str, ...]
    outbound: tuple[Destination, ...]
    """Public: these should answer."""
    forbidden: tuple[Destination, ...]
    """Not public: these should not. The engine adds the machine's own address."""


@dataclass(frozen=True)
class NameAnswer:
    name: str
    addresses: tuple[str, ...]
    failure: str | None
    """Why there are no addresses, as the end of a sentence."""


@dataclass(frozen=True)
class Attempt:
    """One TCP connection that was tried."""

    address: str
    port: int
    outcome: Outcome


@dataclass(frozen=True)
class NetworkDiagnosis:
    resolvers: tuple[str, ...]
    """Those that the replica's programs ask."""
    upstream_resolvers: tuple[str, ...]
    """Those that the engine's own resolver asks in turn; empty where the replica asks them itself."""
    names: tuple[NameAnswer, ...]
    outbound: tuple[Attempt, ...]
    forbidden: tuple[Attempt, ...]
