"""Options of `docker run` that are no settings of Moorage's: taken, and answered with a sentence. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from moorage_cli.other_tools import meanings as m
from moorage_cli.other_tools.asked import Findings
from moorage_cli.other_tools.meanings import Meaning


@dataclass(frozen=True)
class Word:
    names: tuple[str, ...]
    meaning: Meaning
    takes_value: bool = True

    @property
    def parameter(self) -> str:
        return f"docker_{self.names[-1].lstrip('-').replace('-', '_')}"


def _words(meaning: Meaning, *spelled: str, takes_value: bool = True) -> tuple[Word, ...]:
    return tuple(Word(tuple(one.split()), meaning, takes_value) for one in spelled)


WORDS = (
    *_words(m.VOLUMES, "-v --volume", "--mount", "--tmpfs", "--volumes-from", "--volume-driver"),
    *_words(m.NETWORK, "--net --network", "--net-alias --network-alias", "--ip", "--ip6", "--link-local-ip"),
    *_words(m.NETWORK, "--mac-address"),
    *_words(m.NAMES, "--hostname", "--domainname", "--add-host", "--dns", "--dns-option", "--dns-search"),
    *_words(m.NAMES, "--link"),
    *_words(m.RIGHTS, "--privileged", takes_value=False),
    *_words(m.RIGHTS, "--cap-add", "--security-opt", "--pid", "--userns", "--uts", "--cgroupns", "--sysctl"),
    *_words(m.RIGHTS, "--cgroup-parent", "--device-cgroup-rule", "--isolation"),
    *_words(m.ENGINE, "--use-api-socket", takes_value=False),
    *_words(m.DEVICES, "--device"),
    *_words(m.RUNTIME, "--runtime"),
    *_words(m.USER, "-u --user", "--group-add"),
    *_words(m.WORKING_DIRECTORY, "-w --workdir"),
    *_words(m.READ_ONLY, "--read-only", takes_value=False),
    *_words(m.STOP_SIGNAL, "--stop-signal"),
    *_words(m.INPUT, "-i --interactive", takes_value=False),
    *_words(m.INPUT, "-a --attach"),
    *_words(m.TERMINAL, "-t --tty", takes_value=False),
    *_words(m.TERMINAL, "--detach-keys"),
    *_words(m.REMOVAL, "--rm", takes_value=False),
    *_words(m.INIT, "--init", takes_value=False),
    *_words(m.ALL_PORTS, "-P --publish-all", takes_value=False),
    *_words(m.CAPABILITIES, "--cap-drop"),
    *_words(m.LABELS, "-l --label", "--label-file", "--annotation"),
    *_words(m.LOGS, "--log-driver", "--log-opt"),
    *_words(m.PULLS, "--pull"),
    *_words(m.PLATFORM, "--platform"),
    *_words(m.SHARED_MEMORY, "--shm-size", "--ipc"),
    *_words(m.PROCESS_LIMITS, "--ulimit", "--pids-limit"),
    *_words(
        m.SHARES, "-c --cpu-shares", "--cpu-period", "--cpu-quota", "--cpu-rt-period", "--cpu-rt-runtime"
    ),
    *_words(m.SHARES, "--cpuset-cpus", "--cpuset-mems", "--blkio-weight", "--blkio-weight-device"),
    *_words(m.SHARES, "--device-read-bps", "--device-read-iops", "--device-write-bps", "--device-write-iops"),
    *_words(m.SHARES, "--memory-swap", "--memory-swappiness", "--memory-reservation", "--kernel-memory"),
    *_words(m.SHARES, "--oom-score-adj"),
    *_words(m.SHARES, "--oom-kill-disable", takes_value=False),
    *_words(m.DISKS, "--storage-opt"),
    *_words(m.STOPPING, "--stop-timeout"),
    *_words(
        m.CHECK_PACE, "--health-interval", "--health-retries", "--health-timeout", "--health-start-interval"
    ),
    *_words(m.CHECK, "--no-healthcheck", takes_value=False),
    *_words(m.RESTARTS, "--restart"),
    *_words(m.NO_MEANING, "--cidfile"),
    *_words(m.NO_MEANING, "-q --quiet", "--sig-proxy", "--disable-content-trust", takes_value=False),
)

FunctionT = Callable[..., None]


def with_words(function: FunctionT) -> FunctionT:
    """The function with an option for each; it gets those that were given as `findings`."""

    def called(*positional: Any, **arguments: Any) -> None:
        given = {word: arguments.pop(word.parameter) for word in WORDS}
        function(*positional, findings=_findings(given), **arguments)

    own = [one for one in signature(function).parameters.values() if one.name != "findings"]
    called.__name__, called.__doc__ = function.__name__, function.__doc__
    called.__signature__ = Signature([*own, *map(_option, WORDS)])  # type: ignore[attr-defined]
    return called


def _findings(given: Mapping[Word, Any]) -> Findings:
    findings = Findings()
    for word, value in given.items():
        if value:
            findings.add(word.names[-1], word.meaning)
    return findings


def _option(word: Word) -> Parameter:
    told = typer.Option(*word.names, hidden=True, help=word.meaning.sentence)
    # None for a list: Typer gives an empty one where nothing was said.
    kind, default = (list[str] | None, None) if word.takes_value else (bool, False)
    return Parameter(
        word.parameter, Parameter.KEYWORD_ONLY, annotation=Annotated[kind, told], default=default
    )
