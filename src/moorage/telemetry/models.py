"""Tables of telemetry."""
