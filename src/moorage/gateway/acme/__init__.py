"""Certificates that an authority gives by itself (ACME, RFC 8555): asked for, proved, renewed."""
