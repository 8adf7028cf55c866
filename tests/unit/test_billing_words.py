from datetime import UTC, datetime

import pytest

from moorage.billing.views.words import forecast_sentence, initial_credit_sentence
from moorage.ledger.rules import Forecast

SUNDAY = datetime(2026, 3, 1, 14, 32, tzinfo=UTC)


@pytest.mark.parametrize(
    ("forecast", "sentence"),
    [
        (
            Forecast(3_200_000, 12_800_000, SUNDAY),
            "$3.20/h now, up to $12.80/h; runs out Sunday 2026-03-01 14:32 UTC.",
        ),
        (Forecast(3_200_000, 3_200_000, SUNDAY), "$3.20/h; runs out Sunday 2026-03-01 14:32 UTC."),
        (Forecast(5_000, 5_000, None), "$0.005/h; the credit lasts for thousands of years."),
        (Forecast(0, 12_800_000, None), "Nothing runs, so you spend nothing."),
    ],
)
def test_the_forecast_in_a_sentence(forecast: Forecast, sentence: str) -> None:
    assert forecast_sentence(forecast) == sentence


@pytest.mark.parametrize(
    ("needs", "words"),
    [("card", "save a card"), ("approval", "Ask ada"), ("another_mailbox", "another spelling")],
)
def test_what_the_credit_to_begin_with_waits_for(needs: str, words: str) -> None:
    sentence = initial_credit_sentence(needs, "ada")
    assert sentence is not None
    assert words in sentence
    assert "$20.00" in sentence
    assert initial_credit_sentence("nothing", "ada") is None
