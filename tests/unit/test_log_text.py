import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.engines.base import LogStream
from moorage.telemetry.logs.cursor import RawLine
from moorage.telemetry.logs.masking import MASK, Masker, masker_of
from moorage.telemetry.logs.text import LINE_BYTES, harmless_text, harmless_texts

SGR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def shown(data: bytes, masker: Masker = Masker()) -> str:
    return harmless_text(data, len(data), masker)


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (b"", ""),
        (b"plain", "plain"),
        ("grüße 漢字 🚢".encode(), "grüße 漢字 🚢"),
        (b"tab\there", "tab\there"),
        (b"windows line\r", "windows line"),
        (b"10%\r20%\r30%", "10%␍20%␍30%"),
        (b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        (b"\x1b[38:2::255:0:0mred\x1b[m", "\x1b[38:2::255:0:0mred\x1b[m"),
        (b"\x1b[2J\x1b[H", "␛[2J␛[H"),
        (b"\x1b]0;title\x07", "␛]0;title␇"),
        (b"\x1b]8;;http://evil\x1b\\click", "␛]8;;http://evil␛\\click"),
        (b"\x1b[31", "␛[31"),
        (b"\x08\x7f", "␈␡"),
        ("\x9b31m\x85".encode(), "\ufffd31m\ufffd"),
        (b"bad \xff\xfe bytes \xe2\x82", "bad \ufffd\ufffd bytes \ufffd"),
        ("user\u202etxt.exe \u2028next".encode(), "user\ufffdtxt.exe \ufffdnext"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_harmless(printed: bytes, text: str) -> None:
    assert shown(printed) == text


@pytest.mark.parametrize(
    ("secrets", "printed", "text"),
    [
        (["hunter2-long"], "password=hunter2-long!", f"password={MASK}!"),
        (["1234567"], "1234567 is too short to hide", "1234567 is too short to hide"),
        (["12345678"], "12345678 is not", f"{MASK} is not"),
        (["secret-one", "secret-one-and-more"], "secret-one-and-more", MASK),
        (["a.c+e(g)i"], "a.c+e(g)i abcdefghi", f"{MASK} abcdefghi"),
        (["first-line-of-key\nsecond-line-of-key\nshort"], "second-line-of-key short", f"{MASK} short"),
        (["pässwörter"], "das pässwörter", f"das {MASK}"),
        (["with\ttab and \x07"], "x with\ttab and \x07 y", f"x {MASK} y"),
        (["twice-secret"], "twice-secret,twice-secret", f"{MASK},{MASK}"),
        ([], "nothing to hide", "nothing to hide"),
    ],
)
def test_masked(secrets: list[str], printed: str, text: str) -> None:
    assert shown(printed.encode(), masker_of(secrets)) == text


@pytest.mark.parametrize(
    ("printed", "kept", "cut_bytes"),
    [
        (b"x" * LINE_BYTES, b"x" * LINE_BYTES, 0),
        (b"x" * (LINE_BYTES + 1), b"x" * LINE_BYTES, 1),
        (b"x" * (LINE_BYTES - 1) + "漢".encode(), b"x" * (LINE_BYTES - 1), 3),
        (b"x" * (LINE_BYTES - 2) + b"\x1b[31mred", b"x" * (LINE_BYTES - 2), 6),
    ],
)
def test_long_lines_are_cut_with_a_mark(printed: bytes, kept: bytes, cut_bytes: int) -> None:
    mark = f" … [{cut_bytes} bytes cut]" if cut_bytes else ""
    assert shown(printed) == kept.decode() + mark


def test_a_line_of_which_only_the_head_is_known() -> None:
    text = harmless_text(b"x" * LINE_BYTES, 10_000_000, Masker())
    assert text == "x" * LINE_BYTES + f" … [{10_000_000 - LINE_BYTES} bytes cut]"


@pytest.mark.parametrize("before_the_limit", range(1, 12))
def test_a_secret_at_the_cut_is_masked_whole(before_the_limit: int) -> None:
    masker = masker_of(["the-secret-1"])
    line = b"x" * (LINE_BYTES - before_the_limit) + b"the-secret-1" + b"y" * 100
    head = line[: LINE_BYTES + masker.longest_bytes]
    text = harmless_text(head, len(line), masker)
    assert text == "x" * (LINE_BYTES - before_the_limit) + MASK + " … [100 bytes cut]"


pieces = st.sampled_from(
    [b"\x1b[", b"31", b";", b"m", b"\x1b]", b"\xc2", b"\x9b", b"\r", b"\xe2\x80\xae", b"a"]
)


@given(st.one_of(st.binary(max_size=300), st.lists(pieces, max_size=40).map(b"".join)))
def test_nothing_that_controls_a_terminal_is_left(printed: bytes) -> None:
    text = shown(printed.replace(b"\x00", b""))
    assert CONTROL.search(SGR.sub("", text)) is None
    assert len(text.splitlines()) <= 1
    text.encode()


@given(st.binary(max_size=100), st.sampled_from([b"x", b"\xff", b"\r", "漢".encode()]), st.integers(0, 10**7))
def test_no_stored_line_is_much_longer_than_the_limit(end: bytes, filling: bytes, beyond: int) -> None:
    head = filling * (LINE_BYTES // len(filling)) + end.replace(b"\x00", b"")
    text = harmless_text(head, len(head) + beyond, Masker())
    assert len(text.encode()) <= LINE_BYTES + 40
    assert CONTROL.search(SGR.sub("", text)) is None


secret = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Zs", "Cf"]), min_size=8, max_size=12
)


@given(st.lists(secret, min_size=1, max_size=4), st.lists(st.one_of(st.integers(0, 3), st.text(max_size=5))))
def test_no_secret_is_left(secrets: list[str], parts: list[int | str]) -> None:
    printed = "".join(secrets[part % len(secrets)] if isinstance(part, int) else part for part in parts)
    text = shown(printed.encode().replace(b"\x00", b""), masker_of(secrets))
    assert not any(value in text for value in secrets if "•" not in value)


@given(
    st.lists(
        st.binary(max_size=60) | st.text("abc s3cret-word\t\r\n\x1b", max_size=40).map(str.encode), min_size=1
    )
)
def test_a_batch_is_its_lines(heads: list[bytes]) -> None:
    masker = masker_of(["s3cret-word"])
    clean = [head.replace(b"\x00", b"") for head in heads]
    lines = [RawLine(0, 0, LogStream.STDOUT, head, len(head)) for head in clean]
    assert harmless_texts(lines, masker) == [harmless_text(head, len(head), masker) for head in clean]


def test_a_plain_batch_hides_secrets_in_every_line() -> None:
    lines = [
        RawLine(0, 0, LogStream.STDOUT, head, len(head))
        for head in (b"a s3cret-word", b"", b"s3cret-", b"word")
    ]
    assert harmless_texts(lines, masker_of(["s3cret-word"])) == [f"a {MASK}", "", "s3cret-", "word"]
