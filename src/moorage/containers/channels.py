"""Names of notifications. Each says only: read again."""

CONTAINERS = "moorage_containers"
"""Some container is due for a pass."""
ROUTES = "moorage_routes"
"""What the gateways should route has changed."""
DOCTOR = "moorage_doctor"
"""Somebody wants to know about a container's network."""
