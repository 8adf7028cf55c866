"""A document as a PDF.

Its fonts hold Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai and Georgian letters. A character of another script is
written as its code, such as [U+682A], so that nothing is lost; a billing name in one of these scripts avoids that.
"""

import io
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pymupdf_fonts
from fontTools.ttLib import TTFont
from fpdf import FPDF
from fpdf.enums import XPos, YPos

from moorage.billing.invoices.document import Document, DocumentKind, Party
from moorage.kit.money import format_usd

_FAMILY = "FiraGO"
_FONTS = {"": "figo", "B": "figbo"}
_GREY = (91, 102, 117)
_WIDTHS_MM = (94, 20, 28, 28)
_LINE_MM = 6
MOST_LINES = 200
"""Of hours that are listed one by one; the others are added up, because each costs milliseconds."""
_TITLES = {
    DocumentKind.INVOICE: "Invoice",
    DocumentKind.RECEIPT: "Receipt",
    DocumentKind.STATEMENT: "Statement of earnings",
}
_HEADS = {
    DocumentKind.INVOICE: ("Container, project and instance type", "Hours", "USD per hour", "USD"),
    DocumentKind.RECEIPT: ("Payment", "", "", "USD"),
    DocumentKind.STATEMENT: ("Machine", "", "", "USD"),
}
_FEET = {
    DocumentKind.INVOICE: "Paid in full from prepaid credit. Nothing is due.",
    DocumentKind.RECEIPT: "Received and added to the organization's credit.",
    DocumentKind.STATEMENT: "Earned by the organization's machines, after the operator's share.",
}


@lru_cache(maxsize=32)
def render(document: Document) -> bytes:
    """The same document gives the same bytes."""
    # The library reads fonts from files, the last time when it writes the document.
    with tempfile.TemporaryDirectory() as folder:
        pdf = _new_page(document, Path(folder))
        _head(pdf, document)
        _parties(pdf, document)
        _lines(pdf, document)
        _foot(pdf, document)
        written = io.BytesIO()
        pdf.output(written)
    return written.getvalue()


def showable(text: str) -> str:
    """With codes in place of the characters that the font lacks."""
    known = _known_characters()
    return "".join(one if ord(one) in known or one == "\n" else f"[U+{ord(one):04X}]" for one in text)


@lru_cache(maxsize=1)
def _known_characters() -> frozenset[int]:
    # A letter must be there in both weights.
    tables = [TTFont(io.BytesIO(pymupdf_fonts.myfont(code))).getBestCmap() for code in _FONTS.values()]
    return frozenset(tables[0]) & frozenset(tables[1])


def _new_page(document: Document, folder: Path) -> FPDF:
    pdf = FPDF(format="A4")
    for style, code in _FONTS.items():
        file = folder / f"{code}.otf"
        file.write_bytes(pymupdf_fonts.myfont(code))
        pdf.add_font(_FAMILY, style, file)
    pdf.set_text_shaping(True)
    pdf.set_margin(20)
    pdf.set_title(f"{_TITLES[document.kind]} {document.name}")
    pdf.set_author(document.seller.name)
    if document.issued_at is not None:
        pdf.set_creation_date(document.issued_at)
    pdf.add_page()
    return pdf


def _head(pdf: FPDF, document: Document) -> None:
    pdf.set_font(_FAMILY, "B", 20)
    _write(pdf, _TITLES[document.kind], 12)
    pdf.set_font(_FAMILY, "", 10)
    if document.number is None:
        why = (
            "the month is not over"
            if document.kind is not DocumentKind.RECEIPT
            else "it gets one within a minute"
        )
        _write(pdf, f"Preliminary, without a number: {why}.")
    else:
        _write(pdf, f"Number {document.name}")
    if document.kind is not DocumentKind.RECEIPT:
        first = document.dated.replace(day=1)
        _write(pdf, f"For {first:%Y-%m-%d} to {document.dated:%Y-%m-%d} (UTC)")
    else:
        _write(pdf, f"Paid on {document.dated:%Y-%m-%d} (UTC)")
    if document.issued_at is not None:
        _write(pdf, f"Issued on {document.issued_at:%Y-%m-%d}")
    pdf.ln(6)


def _parties(pdf: FPDF, document: Document) -> None:
    for title, party in (("From", document.seller), ("To", document.buyer)):
        pdf.set_text_color(*_GREY)
        _write(pdf, title)
        pdf.set_text_color(0)
        for line in _lines_of(party):
            _write(pdf, line)
        pdf.ln(4)


def _lines_of(party: Party) -> list[str]:
    lines = [party.name, *party.address.split("\n"), f"Tax id {party.tax_id}" if party.tax_id else ""]
    return [line for line in lines if line.strip()]


def _lines(pdf: FPDF, document: Document) -> None:
    hourly = document.kind is DocumentKind.INVOICE
    _row(pdf, _HEADS[document.kind], style="B")
    for line in document.lines[:MOST_LINES]:
        hours, price = "", ""
        if hourly:
            hours, price = f"{line.hours:,}", format_usd(line.price_per_hour_microusd or 0)
        _row(pdf, (line.description, hours, price, format_usd(line.amount_microusd)))
    rest = document.lines[MOST_LINES:]
    if rest:
        hours = f"{sum(line.hours or 0 for line in rest):,}"
        amount = format_usd(sum(line.amount_microusd for line in rest))
        _row(pdf, (f"{len(rest):,} further lines; all are in the JSON of this document", hours, "", amount))
    pdf.ln(2)
    _row(pdf, ("", "", "Total", format_usd(document.total_microusd)), style="B")


def _row(pdf: FPDF, texts: tuple[str, str, str, str], *, style: Literal["", "B"] = "") -> None:
    """Not the library's table: that one measures every cell twice, letter by letter."""
    pdf.set_font(_FAMILY, style, 10)
    what, *numbers = texts
    what, top = showable(what), pdf.get_y()
    fits = pdf.get_string_width(what) < _WIDTHS_MM[0] - 2
    if pdf.will_page_break(_LINE_MM if fits else 4 * _LINE_MM):
        pdf.add_page()
        top = pdf.get_y()
    if fits:
        pdf.cell(_WIDTHS_MM[0], _LINE_MM, what)
        bottom = top + _LINE_MM
    else:
        pdf.multi_cell(_WIDTHS_MM[0], _LINE_MM, what, align="L", new_x=XPos.RIGHT, new_y=YPos.NEXT)
        bottom = pdf.get_y()
        pdf.set_xy(pdf.l_margin + _WIDTHS_MM[0], top)
    for width_mm, text in zip(_WIDTHS_MM[1:], numbers, strict=True):
        pdf.cell(width_mm, _LINE_MM, text, align="R")
    pdf.set_draw_color(226, 230, 235)
    pdf.line(pdf.l_margin, bottom, pdf.l_margin + sum(_WIDTHS_MM), bottom)
    pdf.set_xy(pdf.l_margin, bottom)


def _foot(pdf: FPDF, document: Document) -> None:
    pdf.ln(4)
    pdf.set_font(_FAMILY, "", 10)
    _write(pdf, _FEET[document.kind])
    if document.note:
        _write(pdf, document.note)


def _write(pdf: FPDF, text: str, height_mm: float = _LINE_MM) -> None:
    pdf.multi_cell(0, height_mm, showable(text), align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
