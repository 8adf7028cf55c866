from datetime import datetime

from pydantic import BaseModel


class Cache(BaseModel):
    """What a container keeps on one machine between its starts."""

    id: str
    project_id: str
    container_id: str
    container_name: str
    node: str
    size_bytes: int
    """Its size when last measured."""
    compiled_bytes: int
    """The part that compilers wrote."""
    limit_bytes: int | None
    """Null once its container no longer has a cache."""
    in_use: bool
    """Whether a replica uses it. If so, it cannot be deleted."""
    created_at: datetime
    used_at: datetime
    """It is removed when it has not been used for too long, or when the disk is almost full and nobody uses it."""
    measured_at: datetime | None
    deleting: bool
