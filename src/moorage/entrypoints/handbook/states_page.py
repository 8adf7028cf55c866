"""States of containers and replicas, and every reason, from `containers/`."""

from moorage.containers.reason_words import WORDS
from moorage.containers.states import ContainerState, Outcome, Reason, ReplicaState, Strategy
from moorage.entrypoints.handbook.words import code, sentences_of, table

_ABBREVIATIONS = {"gpu": "GPU", "pids": "PIDs"}


def states() -> str:
    containers, replicas = sentences_of(ContainerState), sentences_of(ReplicaState)
    return f"""# Container states

A container's `state` says what it does, `reason` why, as a [code](reasons.md), and `message` tells it in one sentence.

```text
           ┌─────────── start ───────────┐
PENDING ─> PULLING ─> STARTING ─> RUNNING ─> STOPPING ─> STOPPED
   │          │           │          │                      ▲
   └──────────┴───────────┴──────────┴──> FAILED ───────────┘    delete: any ─> DELETING ─> gone
```

{table(("state", "meaning"), [(code(one.value), containers[one.name]) for one in ContainerState])}
You can change settings at once while a container is `STOPPED` or `FAILED`. While it runs, changes are a
[draft](../updates.md).

## Replica states

A replica is one copy of a container. `moor replicas NAME` lists them.

{table(("state", "meaning"), [(code(one.value), replicas[one.name]) for one in ReplicaState])}
## Versions

How new settings take over (`strategy`) and what became of a version (`outcome`): {_listed(Strategy)}; {_listed(Outcome)}.
[Updates](../updates.md) explains them.
"""


def reasons() -> str:
    missing = [one for one in Reason if one not in WORDS]
    assert not missing, f"say what these mean, in reason_words.py: {missing}"
    sections = [_reason(one) for one in Reason]
    return (
        "# Reasons\n\nWhy a container is in its state. The list is closed: the API and the console show no other.\n\n"
        + "\n".join(sections)
    )


def title_of(reason: Reason) -> str:
    words = [_ABBREVIATIONS.get(word, word) for word in reason.split("_")]
    title = " ".join(words)
    return title[0].upper() + title[1:]


def _reason(reason: Reason) -> str:
    words = WORDS[reason]
    return f"## {title_of(reason)}\n\n{code(reason)}\n\n{words.meaning}\n\n**Fix:** {words.fix}\n"


def _listed(of: type[Strategy] | type[Outcome]) -> str:
    return ", ".join(code(one.value) for one in of)
