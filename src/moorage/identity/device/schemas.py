from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from moorage.identity.sign_in.schemas import SignedIn


class DeviceStart(BaseModel):
    model_config = ConfigDict(extra="forbid")

    client_name: str = Field(default="a command line", min_length=1, max_length=100)
    """Shown to whoever approves, e.g. `moor on my-laptop`."""


class DeviceStarted(BaseModel):
    device_code: str
    user_code: str
    verification_url: str
    interval_s: int
    expires_in_s: int


class DeviceToken(BaseModel):
    device_code: str = Field(max_length=200)


class DeviceAnswer(BaseModel):
    status: Literal["pending", "approved"]
    signed_in: SignedIn | None = None


class DeviceWaiting(BaseModel):
    user_code: str
    client_name: str


class DeviceDecision(BaseModel):
    model_config = ConfigDict(extra="forbid")

    approve: bool
