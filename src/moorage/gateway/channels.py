"""Names of notifications. Each says only: read again."""

GATEWAYS = "moorage_gateways"
"""A gateway has come, or was forgotten."""
