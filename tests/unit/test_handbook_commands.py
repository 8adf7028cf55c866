"""What the handbook tells people to type exists, also where no test can run it; `tests/acceptance/test_handbook.py` runs the rest."""

import os
import re
import shlex
from collections.abc import Iterator

import pytest

from moorage.entrypoints.handbook.commands_page import commands
from moorage.kit.settings import load_settings
from tests.handbook_blocks import DOCS, blocks_of, pages

COMMANDS = dict(commands())
GROUPS = {" ".join(path.split()[:length]) for path in COMMANDS for length in range(1, len(path.split()))}
LANGUAGES = {"console", "text", "python", "toml", "yaml", "dockerfile", "{toctree}"}
_IN_A_SENTENCE = re.compile(r"`(moor [^`]*)`")

NOT_RUN = {
    "autoscaling": ["a container that has just been deployed has no days to replay"],
    "backup": [
        "needs the service; make prove-packages does it, and tests/database/test_full_backup.py",
        "needs a machine of its own; make prove-packages does it, and tests/database/test_full_backup.py",
        "ends the installation; tests/acceptance/test_backup.py does it",
    ],
    "budgets": ["needs the payments' provider", "the operator has to have named a bank account"],
    "caches": ["needs a cache that is broken; tests/browser/test_model_story_docker.py has one"],
    "community-machines": [
        "needs a machine that joined; make prove-machines has some",
        "needs a payout that an owner asked for",
    ],
    "custom-domain": ["needs a DNS name and a certificate for it"],
    "from-docker": [
        "it is for the file that a shell reads when it starts; tests/unit/test_cli_completion.py does it"
    ],
    "install": [
        *["needs a built package and a machine of its own; make prove-packages does it"] * 2,
        "makes users, units and folders of the machine; make prove-packages does it",
        "needs the service; make prove-packages does it",
        "ends the installation; make prove-packages does it",
        "the tutorial's test runs make up; the others end the installation that the other pages are tried on",
    ],
    "kubernetes": [
        *["needs a cluster; make test-cluster has one", "takes minutes; make test-cluster does it"],
        *["needs a cluster; make test-cluster has one"] * 3,
    ],
    "lend-a-machine": [
        "machines join over https, where the operator has opened the installation",
        "needs a machine that joined; make prove-machines has some",
        "needs earnings that are payable",
    ],
    "machines": [
        "machines join over https, at a name that they reach",
        "needs a machine that joined; make prove-machines has some",
    ],
    "private-registry": ["the token in the file is made up"],
    "roles": ["needs a Postgres of its own; tests/database/test_bootstrap.py and make test-cluster have one"],
    "teams": [
        "needs a second person who has accepted",
        "the organization of the tutorial is needed after it",
    ],
    "tls": ["needs a certificate for a real name"],
    "troubleshooting": ["its exit code says whether this machine has a fault"],
    "upgrade": ["needs a newer version"] * 3,
}
"""Every block that no test runs, with the reason that its page gives."""


def test_what_is_not_run_says_why() -> None:
    found = {page: [block.not_run for block in blocks_of(page) if block.not_run] for page in pages()}
    assert {page: reasons for page, reasons in found.items() if reasons} == NOT_RUN


def test_no_block_hides_commands() -> None:
    for page in pages():
        for block in blocks_of(page):
            assert block.language in LANGUAGES, f"{page}:{block.line}"
            assert bool(block.commands) == (block.language == "console"), f"{page}:{block.line}"


def typed() -> Iterator[tuple[str, str]]:
    """Every call of `moor`, in blocks and in sentences."""
    for page in pages():
        for block in blocks_of(page):
            for command in block.commands:
                for part in re.split(r"\$\(|&&|\|\||[;|)]|\buntil\b|\bdo\b", command):
                    if part.strip().startswith("moor "):
                        yield page, part.strip()
        for sentence in _IN_A_SENTENCE.findall((DOCS / f"{page}.md").read_text()):
            yield page, sentence


def test_every_command_is_one() -> None:
    seen, wrong = 0, []
    for page, line in typed():
        words = shlex.split(line.replace("…", ""))
        path = next(
            (
                " ".join(words[:length])
                for length in range(len(words), 0, -1)
                if " ".join(words[:length]) in COMMANDS
            ),
            None,
        )
        if path is None:
            if " ".join(words) not in GROUPS:
                wrong.append(f"{page}: {line}")
            continue
        known = {name for one in COMMANDS[path].params for name in (*one.opts, *one.secondary_opts)}
        given = {word.partition("=")[0] for word in words if re.match(r"-[a-z]$|--[a-z]", word)}
        wrong += [f"{page}: {line}: {option}" for option in given - known]
        seen += 1
    assert wrong == []
    assert seen > 150


@pytest.mark.parametrize("page", pages())
def test_settings_are_accepted(page: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith("MOORAGE_")]:
        monkeypatch.delenv(name)
    for block in blocks_of(page):
        if block.file == "moorage.toml":
            file = f"{tmp_path}/{block.line}.toml"
            with open(file, "w") as opened:
                opened.write(block.text)
            monkeypatch.setenv("MOORAGE_CONFIG", file)
            load_settings()
