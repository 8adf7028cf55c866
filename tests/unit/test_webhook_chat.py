"""Events as sentences for a chat."""

import pytest

from moorage.webhooks.chat import Names, chat_text
from moorage.webhooks.events import EVENTS

SOMEBODY = Names("production", "whisper", "ada@example.com")
ITSELF = Names("production", "whisper")


@pytest.mark.parametrize(
    ("event", "data", "names", "text"),
    [
        (
            "container.state",
            {"details": {"from": "STARTING", "to": "FAILED"}, "message": "Listens on 127.0.0.1:8000"},
            ITSELF,
            "production / whisper: Starting → Failed. Listens on 127.0.0.1:8000.",
        ),
        (
            "container.autoscale",
            {"details": {"from": 1, "to": 5}},
            ITSELF,
            "production / whisper: Scaled 1 → 5.",
        ),
        (
            "container.stop",
            {"details": {}},
            SOMEBODY,
            "production / whisper: A container was asked to stop. By ada@\u200bexample.com.",
        ),
        ("container.state", {"details": {"from": None, "to": "PENDING"}}, ITSELF, None),
        ("member.remove", {"target": "usr_1"}, Names(actor="x"), "A member was removed. By x."),
        ("something.new", {}, Names(), "something.new."),
        ("webhook.test", {}, Names(), None),
    ],
)
def test_a_sentence(event: str, data: dict[str, object], names: Names, text: str | None) -> None:
    said = chat_text(event, data, names, None)
    assert said == text if text is not None else said.endswith(".")


def test_every_event_is_a_sentence() -> None:
    for event in EVENTS:
        said = chat_text(event, {}, ITSELF, None)
        assert said[0].isupper() or said.startswith("production / whisper: ")
        assert said.endswith(".")


def test_names_mention_nobody_and_link_nowhere() -> None:
    names = Names("<!channel>", "@everyone <https://evil.test|click> `x` *y*")
    said = chat_text("container.start", {"message": "<@U1>"}, names, "https://moorage.test/projects/1")
    sentence = said.removesuffix(" https://moorage.test/projects/1")
    assert sentence != said
    assert not set("<>`*") & set(sentence)
    assert "@e" not in sentence
    assert "@U" not in sentence


def test_what_is_long_is_shortened_and_keeps_its_link() -> None:
    said = chat_text("container.state", {"message": "x" * 5000}, ITSELF, "https://moorage.test/it")
    assert len(said) < 1100
    assert said.endswith("… https://moorage.test/it")
