"""What a job is told to do to make a PDF file. Apart from `pdf.py`, whose library for fonts every start of the API would
wait for."""

from moorage.billing.invoices.document import Document


def rendered(document: Document) -> bytes:
    from moorage.billing.invoices.pdf import render

    return render(document)
