"""Who asks."""

from dataclasses import dataclass

from moorage.kit.ids import ApiKeyId, ProjectId, SessionId, UserId


@dataclass(frozen=True)
class UserActor:
    """A person: by browser or CLI session, or the operator by their key (then without a session)."""

    user_id: UserId
    email: str
    is_operator: bool
    session_id: SessionId | None

    @property
    def id(self) -> str:
        return self.user_id

    @property
    def shares_as(self) -> str:
        return self.user_id


@dataclass(frozen=True)
class KeyActor:
    """An API key with scope `manage`: a `user` of its one project, never more."""

    key_id: ApiKeyId
    project_id: ProjectId
    made_by: str | None

    @property
    def id(self) -> str:
        return self.key_id

    @property
    def shares_as(self) -> str:
        """Of what is scarce, all keys of a person have one share with them: keys, projects and organizations to make them
        in are there for the asking."""
        return self.made_by or self.project_id


Actor = UserActor | KeyActor
