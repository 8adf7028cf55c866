from pydantic import BaseModel, Field


class EmailStart(BaseModel):
    email: str = Field(max_length=320)


class CodeSent(BaseModel):
    message: str


class EmailVerify(BaseModel):
    email: str = Field(max_length=320)
    code: str = Field(max_length=20)


class LinkVerify(BaseModel):
    token: str = Field(max_length=200)


class User(BaseModel):
    id: str
    email: str
    is_operator: bool


class SignedIn(BaseModel):
    """For a browser the session is also in a cookie; the CLI sends `session_token` as a Bearer token."""

    user: User
    session_token: str
    csrf_token: str


class Me(BaseModel):
    """`user` for a person, `project_id` for an API key."""

    user: User | None = None
    project_id: str | None = None
    csrf_token: str | None = None
    community_machines: bool = False
    """Whether organizations may lend machines to this installation."""
