"""Who comes first on a busy machine, of the processes as they run."""

import os

from moorage.kit.priority import FIRST
from tests.acceptance.stack import Stack
from tests.priorities import priority_of


def test_what_people_wait_for_comes_first(stack: Stack) -> None:
    for name in ("api", "haproxy", "postgres"):
        assert priority_of(stack.pid_of(name)) == (FIRST, FIRST), name
    for name in ("controller", "gateway"):
        assert FIRST not in priority_of(stack.pid_of(name)), name
        assert os.getsid(stack.pid_of(name)) == stack.pid_of(name), "what it computes is weighed by itself"
