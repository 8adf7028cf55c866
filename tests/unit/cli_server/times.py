"""When it all happened."""

CREATED_AT = "2026-01-31T12:00:00Z"
