"""Names of notifications. Each says only: read again."""

API_KEYS = "moorage_api_keys"
"""A key was made, changed or revoked."""
