"""Real demand for language models, from public traces. They are not part of this repository: `MOORAGE_TRACES` names a folder.

- `AzureLLMInferenceTrace_code.csv`, `…_conv.csv` (Azure/AzurePublicDataset, 2023): each request of an hour, with its tokens.
- `conversation_trace.jsonl` (kvcache-ai/Mooncake, FAST25-release/traces): the same of another service.
- `servegen/<model>/chunk-*-trace.csv` (alibaba/ServeGen, data/language): for each client of a model, rate and burstiness of
  every ten minutes of two weeks. Arrivals within them are drawn with both; a client's demand is a container's here.

A request lasts as long as its tokens take, at a pace that is common. The rule was worked on with `WORKING`; `HELD_OUT` was
chosen before that and looked at once, at the end.
"""

import csv
import heapq
import json
import math
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from autoscale_traces import Trace

PROMPT_TOKENS_PER_S = 8000
TOKENS_PER_S = 40
WARM_UP_S = 900
"""These hours begin in the middle of something: a rule needs the time to bring up what is needed at all."""

CLIENTS = 4
"""Of a model: the first by number that are active nearly always and at a rate that one container may have."""
RATES = (1.0, 10.0)
ACTIVE = 0.9
MEAN_IN_FLIGHT = 20.0
"""In the first week; how long a client's requests last follows from it."""
WINDOW_S, WEEK_S, DAY_S = 600, 604_800, 86_400
MEASURED_S = DAY_S
MONDAY = 4 * DAY_S


def working(folder: Path) -> list[Trace]:
    return [*_found(folder, WORKING)]


def held_out(folder: Path) -> list[Trace]:
    return [*_found(folder, HELD_OUT)]


def _found(
    folder: Path, sources: dict[str, tuple[str, Callable[[str, Path], Iterator[Trace]]]]
) -> Iterator[Trace]:
    for name, (where, read) in sources.items():
        if (folder / where).exists():
            yield from read(name, folder / where)
        else:
            print(f"NOT MEASURED: there is no {where} in {folder}")


def _azure(name: str, path: Path) -> Iterator[Trace]:
    with path.open() as lines:
        requests = [
            (
                datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp(),
                int(row["ContextTokens"]),
                int(row["GeneratedTokens"]),
            )
            for row in csv.DictReader(lines)
        ]
    yield _hour(name, requests)


def _mooncake(name: str, path: Path) -> Iterator[Trace]:
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    yield _hour(name, [(row["timestamp"] / 1000, row["input_length"], row["output_length"]) for row in rows])


def _hour(name: str, requests: list[tuple[float, int, int]]) -> Trace:
    begun = min(at for at, _, _ in requests)
    lasting = [
        (at - begun, prompt / PROMPT_TOKENS_PER_S + generated / TOKENS_PER_S)
        for at, prompt, generated in sorted(requests)
    ]
    in_flight, arrivals = _seconds(lasting, int(lasting[-1][0]))
    # A service larger than the most replicas is one of several alike: each request goes to one of them by chance.
    parts = math.ceil(sum(in_flight) / len(in_flight) / MEAN_IN_FLIGHT)
    if parts > 1:
        chance = random.Random(name)
        mine = [one for one in lasting if chance.randrange(parts) == 0]
        in_flight, arrivals = _seconds(mine, int(lasting[-1][0]))
    return Trace(name, in_flight, arrivals, [0, *accumulate(in_flight)], counted_from=WARM_UP_S)


def _clients(name: str, folder: Path) -> Iterator[Trace]:
    taken = 0
    for path in sorted(folder.glob("chunk-*-trace.csv"), key=lambda one: int(one.name.split("-")[1])):
        with path.open() as lines:
            windows = [(float(row[1]), float(row[2])) for row in csv.reader(lines)]
        rates = [rate for rate, _ in windows]
        mean = sum(rates) / len(rates)
        active = sum(1 for rate in rates if rate > 0) / len(rates)
        if RATES[0] <= mean <= RATES[1] and active >= ACTIVE and taken < CLIENTS:
            taken += 1
            yield _client(f"{name} {path.name.split('-')[1]}", windows)


def _client(name: str, windows: list[tuple[float, float]]) -> Trace:
    chance = random.Random(name)
    first_week = [rate for rate, _ in windows[: WEEK_S // WINDOW_S]]
    lasts_s = MEAN_IN_FLIGHT * len(first_week) / sum(first_week)
    requests: list[tuple[float, float]] = []
    for place, (rate, cv) in enumerate(windows[: (WEEK_S + MEASURED_S) // WINDOW_S]):
        shape = 1 / max(cv, 0.1) ** 2
        at, end = place * WINDOW_S + _pause(chance, rate, shape) * chance.random(), (place + 1) * WINDOW_S
        while at < end:
            requests.append((at, chance.expovariate(1 / lasts_s)))
            at += _pause(chance, rate, shape)
    in_flight, arrivals = _seconds(requests, WEEK_S + MEASURED_S)
    history = tuple(sum(in_flight[at : at + 60]) / 60 for at in range(0, WEEK_S, 60))
    in_flight, arrivals = in_flight[WEEK_S:], arrivals[WEEK_S:]
    return Trace(name, in_flight, arrivals, [0, *accumulate(in_flight)], history, MONDAY + WEEK_S)


def _pause(chance: random.Random, rate: float, shape: float) -> float:
    return chance.gammavariate(shape, 1 / (shape * rate)) if rate > 0 else math.inf


def _seconds(requests: list[tuple[float, float]], until: int) -> tuple[list[int], list[int]]:
    """How many are in flight at the end of each second, and how many arrived within it."""
    in_flight, arrivals = [0] * until, [0] * until
    place, running = 0, list[float]()
    for second in range(until):
        while place < len(requests) and requests[place][0] < second + 1:
            heapq.heappush(running, requests[place][0] + requests[place][1])
            arrivals[second] += 1
            place += 1
        while running and running[0] <= second + 1:
            heapq.heappop(running)
        in_flight[second] = len(running)
    return in_flight, arrivals


WORKING: dict[str, tuple[str, Callable[[str, Path], Iterator[Trace]]]] = {
    "Azure code": ("AzureLLMInferenceTrace_code.csv", _azure),
    "Azure conversation": ("AzureLLMInferenceTrace_conv.csv", _azure),
    "ServeGen small": ("servegen/m-small", _clients),
    "ServeGen middle": ("servegen/m-mid", _clients),
}
HELD_OUT: dict[str, tuple[str, Callable[[str, Path], Iterator[Trace]]]] = {
    "Mooncake": ("conversation_trace.jsonl", _mooncake),
    "ServeGen large": ("servegen/m-large", _clients),
}
