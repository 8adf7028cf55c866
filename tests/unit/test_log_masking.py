"""What covering secrets costs, whatever they are; what is covered of long ones."""

import time

import pytest

from moorage.engines.base import LogStream
from moorage.telemetry.logs.cursor import RawLine
from moorage.telemetry.logs.masking import MASK, PIECE_CHARACTERS, masker_of
from moorage.telemetry.logs.preparing import Shares
from moorage.telemetry.logs.text import LINE_BYTES, harmless_text, harmless_texts

MANY_SHORT = ["\n".join(f"{value}{line:07d}" for line in range(3500)) for value in range(8)]
NESTED = ["\n".join("a" * length for length in range(8, 700))]
LONG_BEHIND_SHORT = ["a" * 8, "a" * 32_000 + "b"]


@pytest.mark.parametrize(
    ("secrets", "line"),
    [
        pytest.param(MANY_SHORT, "0000012x" * 2048, id="28,000 short ones, nearly met"),
        pytest.param(MANY_SHORT, "00000012" * 2048, id="28,000 short ones, met at each step"),
        pytest.param(NESTED, "a" * LINE_BYTES, id="each the end of the next"),
        pytest.param(LONG_BEHIND_SHORT, "a" * LINE_BYTES, id="a long one that begins like a short one"),
        pytest.param(["\x1b" * 32_000], "\x1b[1" * 5000, id="control characters"),
    ],
)
def test_a_line_costs_no_more_than_a_pass_over_it(secrets: list[str], line: str) -> None:
    lines = [RawLine(number, 0, LogStream.STDOUT, line.encode(), len(line)) for number in range(8)]
    began_s = time.thread_time()
    masker = masker_of(secrets)
    built_s = time.thread_time() - began_s
    harmless_texts(lines, masker)
    took_s = time.thread_time() - began_s - built_s
    assert built_s < 2, "to build it once"
    assert took_s < 0.5, "for eight lines of 16 KiB"


@pytest.mark.parametrize("length", [PIECE_CHARACTERS - 1, PIECE_CHARACTERS, 127, 128, 129, 1000, 32_768])
def test_a_long_secret_is_covered_as_one(length: int) -> None:
    secret = "".join(chr(0x21 + (number * number + number // 64) % 90) for number in range(length))
    masker = masker_of([secret])
    assert masker.hide(f"key {secret} end") == f"key {MASK} end"
    assert masker.longest_bytes <= 4 * 2 * PIECE_CHARACTERS


def test_a_piece_of_a_long_secret_is_covered() -> None:
    secret = "".join(f"{number:04d}" for number in range(250))
    assert masker_of([secret]).hide(secret[:300]) == MASK + secret[256:300]


def test_a_long_secret_at_the_cut() -> None:
    secret = "".join(f"{number:04d}" for number in range(250))
    masker = masker_of([secret])
    line = ("x" * (LINE_BYTES - 500) + secret + "y" * 100).encode()
    text = harmless_text(line[: LINE_BYTES + masker.longest_bytes], len(line), masker)
    assert text.startswith("x" * (LINE_BYTES - 500) + MASK + " … [")


def test_an_organization_that_used_up_its_share_waits_and_others_do_not() -> None:
    shares = Shares(share=0.1, at_once_s=1.0)
    shares.take("org_a", 1.0, now_s=100.0)
    assert shares.wait_s("org_a", 100.0) == 0, "what it has to spare"
    shares.take("org_a", 0.5, now_s=100.0)
    assert shares.wait_s("org_a", 100.0) == pytest.approx(5.0)
    assert shares.wait_s("org_a", 105.0) == pytest.approx(0.0)
    assert shares.wait_s("org_b", 100.0) == 0
