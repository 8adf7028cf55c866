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
    """As it was last measured."""
    compiled_bytes: int
    """Of that, what compilers wrote."""
    limit_bytes: int | None
    """Null once its container has none any more."""
    in_use: bool
    """A replica has it. Then it cannot be deleted."""
    created_at: datetime
    used_at: datetime
    """It goes when it was not used for too long, or when the disk is almost full and nobody uses it."""
    measured_at: datetime | None
    deleting: bool
