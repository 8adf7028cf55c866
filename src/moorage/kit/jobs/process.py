"""The process of one job: reads what to do from its input, writes what came of it to its output."""

import math
import os
import pickle
import resource
import sys

from moorage.kit.jobs.limits import MOST_MEMORY_BYTES
from moorage.kit.parent import end_with_parent
from moorage.kit.priority import BEHIND, set_priority


def main() -> None:
    end_with_parent()
    set_priority(os.getpid(), BEHIND)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    # From the process that started this one, and from nobody else.
    budget_s, function, arguments, named = pickle.load(sys.stdin.buffer)  # noqa: S301
    processor_time_s = math.ceil(budget_s)
    resource.setrlimit(resource.RLIMIT_CPU, (processor_time_s, processor_time_s))
    pickle.dump(function(*arguments, **named), sys.stdout.buffer)


if __name__ == "__main__":
    main()
