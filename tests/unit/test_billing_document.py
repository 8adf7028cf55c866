"""What invoices and receipts say."""

import io
from datetime import UTC, date, datetime

import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.billing.invoices.document import (
    Document,
    DocumentKind,
    Line,
    Party,
    from_json,
    month_of,
    next_month,
    to_json,
)
from moorage.billing.invoices.pdf import MOST_LINES, render

ISSUED_AT = datetime(2026, 12, 1, 1, tzinfo=UTC)
texts = st.text(max_size=30)
parties = st.builds(Party, texts, texts, texts)
lines = st.builds(
    Line, texts, st.integers(1, 2**53), st.none() | st.integers(1, 10_000), st.none() | st.integers(1, 2**40)
)
documents = st.builds(
    Document,
    st.sampled_from(DocumentKind),
    st.integers(1, 10**6),
    st.dates(),
    st.just(ISSUED_AT),
    parties,
    parties,
    st.lists(lines, max_size=5).map(tuple),
    texts,
)


@given(documents)
def test_what_is_stored_comes_back(document: Document) -> None:
    assert document.number is not None
    assert from_json(document.kind, document.number, ISSUED_AT, to_json(document)) == document
    assert document.total_microusd == sum(line.amount_microusd for line in document.lines)


@given(st.dates(min_value=date(2000, 1, 1), max_value=date(9998, 12, 31)))
def test_months(day: date) -> None:
    first = day.replace(day=1)
    assert month_of(f"{day:%Y-%m}") == first
    assert next_month(first).day == 1
    assert 28 <= (next_month(first) - first).days <= 31


@pytest.mark.parametrize(
    "text", ["", "2026-13", "2026-00", "2026-1", "1999-12", "2026/11", "２０２６-11", "2026-11-"]
)
def test_what_is_not_a_month(text: str) -> None:
    assert month_of(text) is None


@pytest.mark.long
def test_a_long_invoice_is_added_up_at_its_end() -> None:
    """On paper, not in the sum: each line costs milliseconds, and a month can have thousands."""
    long = "a name that goes on and on " * 8
    lines = tuple(
        Line(long if number == 3 else f"chat-{number}", 7, 1, 7) for number in range(MOST_LINES + 50)
    )
    buyer = Party("株式会社", "Kai 1\n20359 Hamburg")
    invoice = Document(
        DocumentKind.INVOICE, 7, date(2026, 11, 30), ISSUED_AT, Party("Seller"), buyer, lines, "A note."
    )
    pdf = render(invoice)
    text = "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages)
    assert f"chat-{MOST_LINES - 1} 1 $0.000007 $0.000007" in text
    assert f"chat-{MOST_LINES} " not in text
    assert "50 further lines; all are in the JSON of this document 50 $0.00035" in text
    assert "Total $0.00175" in text
    assert "[U+682A][U+5F0F][U+4F1A][U+793E]" in text
    render.cache_clear()
    assert render(invoice) == pdf, "the same bytes"
