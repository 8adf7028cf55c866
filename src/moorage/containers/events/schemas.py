from pydantic import BaseModel


class ChangeNotice(BaseModel):
    containers: list[str]
    """Those that changed; empty when it may be any of the project's."""
