"""A mail as it is sent: the plain text, and the same text for readers that show HTML. Pure."""

import html
import re
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

_URL = re.compile(r"https?://[^\s<>\"]+[^\s<>\".,;:!?)]")
_CODE = re.compile(r"(?m)^\s*(\d{6})\s*$")


@dataclass(frozen=True)
class Mail:
    id: str
    to: str
    subject: str
    text: str
    created_at: datetime


def compose(mail: Mail, sender: str, message_id_domain: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = _address(sender)
    message["To"] = _address(mail.to)
    # A name in it may hold a line break, which no header may.
    message["Subject"] = " ".join(mail.subject.split())
    message["Date"] = format_datetime(mail.created_at)
    # The same at every try, so that a mail whose acknowledgement was lost is recognised as the same.
    message["Message-ID"] = f"<{mail.id}@{message_id_domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail.text)
    message.add_alternative(as_html(mail.subject, mail.text), subtype="html")
    return message


def as_html(subject: str, text: str) -> str:
    paragraphs = "\n".join(_paragraph(part) for part in re.split(r"\n\s*\n", text.strip()))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(subject)}</title></head>\n'
        '<body style="margin:0;padding:32px 16px;background:#f6f7f9;color:#131820;'
        'font:14px/20px Inter,Helvetica,Arial,sans-serif">\n'
        '<div style="max-width:520px;margin:0 auto;padding:24px 32px;background:#ffffff;'
        'border:1px solid #e2e6eb;border-radius:8px">\n'
        '<p style="margin:0 0 16px;font-weight:600">Moorage</p>\n'
        f"{paragraphs}\n</div></body></html>\n"
    )


def _paragraph(text: str) -> str:
    code = _CODE.fullmatch(text)
    if code is not None:
        style = "margin:0 0 16px;font:600 28px/40px 'JetBrains Mono',monospace;letter-spacing:4px"
        return f'<p style="{style}">{code[1]}</p>'
    lines = "<br>\n".join(_linked(line) for line in text.strip().splitlines())
    return f'<p style="margin:0 0 16px">{lines}</p>'


def _linked(line: str) -> str:
    parts, end = [], 0
    for url in _URL.finditer(line):
        target = html.escape(url[0])
        parts += [
            html.escape(line[end : url.start()]),
            f'<a href="{target}" style="color:#1650c0">{target}</a>',
        ]
        end = url.end()
    return "".join([*parts, html.escape(line[end:])])


def _address(address: str) -> Address:
    local, _, domain = address.rpartition("@")
    return Address(username=local, domain=domain)
