"""What NVIDIA's error numbers (Xid) mean for whoever runs the machine. Pure.

After some of them nothing computes on that GPU until it is reset. Only those keep replicas away that no program causes at
will: whoever runs one could otherwise take the GPU from everybody. The meanings are those of NVIDIA's list of Xid errors
(docs.nvidia.com/deploy/xid-errors).
"""

from dataclasses import dataclass
from enum import StrEnum

FALLEN_OFF_THE_BUS = 79
RECOVERY_ACTION = 154
"""The driver says what the GPU needs, in so many words; the last one holds."""


@dataclass(frozen=True)
class Xid:
    bus_id: str
    """As the kernel spells it: 0000:3b:00."""
    number: int
    action: int | None = None
    """Of a 154: what the driver asks for; see `_ACTIONS`."""


class XidKind(StrEnum):
    UNUSABLE = "unusable"
    """Only a reset, or a restart of the machine, helps."""
    MEMORY = "memory"
    """Its memory wears, and the GPU helped itself."""
    NVLINK = "nvlink"
    RESET_ADVISED = "reset_advised"
    PROGRAM = "program"
    """As a rule the fault of the program that computed."""
    OTHER = "other"


_UNUSABLE = {
    48: "an error in its memory that could not be corrected",
    62: "its own controller stopped",
    64: "a bad row of its memory could not be exchanged",
    FALLEN_OFF_THE_BUS: "it has fallen off the bus",
    95: "an error in its memory that spread",
    119: "its own processor (GSP) does not answer",
    120: "its own processor (GSP) failed",
    140: "an error in its memory that could not be corrected",
}
_ACTIONS = {
    1: (XidKind.UNUSABLE, "the driver asks for a reset of it"),
    2: (XidKind.UNUSABLE, "the driver asks for a restart of the machine"),
    3: (XidKind.RESET_ADVISED, "the driver asks to end what uses it together with other GPUs"),
    4: (XidKind.RESET_ADVISED, "the driver asks for a reset once nothing runs on it"),
}
_MEMORY = {
    63: "it found a bad row in its memory, and exchanges it for a spare one at its next reset",
    92: "its memory has many errors, all of them corrected so far",
    94: "an error in its memory that could not be corrected ended a program, and no other",
}
_NVLINK = (74, *range(144, 151), 155)
_PROGRAM = (
    8,
    11,
    13,
    31,
    32,
    *range(39, 46),
    47,
    65,
    *range(68, 74),
    *range(75, 78),
    *range(82, 87),
    88,
    89,
    137,
)


def meaning_of(xid: Xid) -> tuple[XidKind, str]:
    """What it is, and a clause about the GPU."""
    if xid.number in _UNUSABLE:
        return XidKind.UNUSABLE, _UNUSABLE[xid.number]
    if xid.number == RECOVERY_ACTION and xid.action in _ACTIONS:
        return _ACTIONS[xid.action]
    if xid.number in _MEMORY:
        return XidKind.MEMORY, _MEMORY[xid.number]
    if xid.number in _NVLINK:
        return XidKind.NVLINK, "a link to another GPU (NVLink) failed"
    if xid.number in _PROGRAM:
        return XidKind.PROGRAM, "as a rule the fault of a program"
    return XidKind.OTHER, "NVIDIA's list of Xid errors says what it is"


def unusable_after(xid: Xid) -> str | None:
    """Why nothing may be started on that GPU, as a clause."""
    kind, clause = meaning_of(xid)
    return f"{clause} (Xid {xid.number})" if kind is XidKind.UNUSABLE else None
