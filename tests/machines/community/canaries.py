"""What must not be on a lent machine, whose owner is root: looked for in all that is written there, and in what its processes were
given.

A search that finds nothing shows nothing by itself, so it has to find what is put there first.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from tests.acceptance.stack import Admin, Person
from tests.machines.community.people import NEIGHBOUR, People
from tests.machines.fleet import Fleet
from tests.machines.machine import Machine
from tests.registry.conftest import PASSWORD

_LEAST = 12
"""Characters of a word that is secret."""
_ID = re.compile(r"[a-z]{3}_[a-z0-9]+")
"""No secret: what runs on a machine says whose it is, and beside the hash of a key stands its project."""
PLANTED = "planted-canary-3307"


def secrets_of(people: People, fleet: Fleet) -> dict[str, str]:
    """By what they are: of the installation, of other machines, and of people."""
    lab = people.lab
    neighbour = lab.machines[NEIGHBOUR]
    files = {
        **{path.name: path.read_text() for path in _key_files(lab.stack.home)},
        "the certificate's key": lab.certificate.read_text()
        .partition("PRIVATE KEY-----")[2]
        .partition("-----END")[0],
        "the neighbour's secrets": neighbour.run("cat /etc/moorage/*.key /etc/moorage/secrets.json").stdout,
    }
    words = {
        f"{name}, {number}": word
        for name, text in files.items()
        for number, word in enumerate(re.findall(rf"[A-Za-z0-9+/_=-]{{{_LEAST},}}", text))
        if _ID.fullmatch(word) is None
    }
    tokens = {name: _token(one) for name, one in {**people.owners, "tenant": people.tenant}.items()}
    return {**words, **tokens, "the registry's password": PASSWORD, "the tenant's API key": fleet.key}


def _key_files(home: Path) -> list[Path]:
    named = re.compile(r"key|password|secret")
    files = [path for path in home.rglob("*") if named.search(path.name) and path.is_file()]
    private = [path for path in files if path.stat().st_mode & 0o077 == 0]
    found = [path for path in private if path.relative_to(home).parts[:2] != ("postgres", "data")]
    names = {path.name for path in found}
    assert {"operator-key", "secret-keys", "password"} <= names, names
    return found


def _token(person: Admin | Person) -> str:
    return str(person.api.headers["Authorization"].removeprefix("Bearer "))


def found_on(machine: Machine, secrets: dict[str, str]) -> list[str]:
    """Which of them, and where. A machine's disk is its folder here; what is only in its memory is looked at from inside."""
    machine.run(f"echo {PLANTED} >/var/lib/planted; echo {PLANTED} >/run/planted")
    inside = Path(f"/proc/{machine.first_process}/root")
    places = [machine.folder / "changes", machine.folder / "disk", inside / "run", inside / "tmp"]
    names = {word: name for name, word in {**secrets, "what was planted": PLANTED}.items()}
    with tempfile.NamedTemporaryFile("w", suffix=".words", dir="/var/tmp") as words:
        words.write("\n".join(names) + "\n")
        words.flush()
        arguments = [
            "--recursive",
            "--text",
            "--only-matching",
            "--with-filename",
            "--null",
            "--fixed-strings",
        ]
        command = ["grep", *arguments, "--devices=skip", "--no-messages", "--file", words.name]
        done = subprocess.run([*command, *map(str, places)], capture_output=True, text=True, timeout=600)
    given = machine.run("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'").stdout
    matches = [line.partition("\0") for line in done.stdout.splitlines()]
    lies = {(word, path) for path, _, word in matches}
    assert sum(word == PLANTED for word, _ in lies) == 2, "the search finds what is there"
    assert "HOME=/root" in given, "it sees what processes were given"
    machine.run("rm /var/lib/planted /run/planted")
    lies |= {(word, "what a process was given") for word in names if word in given}
    return sorted(f"{names[word]} in {path}" for word, path in lies if word != PLANTED)
