from pydantic import BaseModel

from moorage.billing.closing.rules import Code


class DeletionObstacle(BaseModel):
    code: Code
    message: str
    """What is there, and what to do about it."""


class OrganizationDeletion(BaseModel):
    obstacles: list[DeletionObstacle]
    """What has to end first. While there is one, deleting is refused."""
    given_up_microusd: int
    """What nobody can use after that: to be said as `gives_up_microusd`."""
    paid_credit_microusd: int
    """Of it, credit that was paid in. Ask the operator for it before you delete."""
    given_credit_microusd: int
    """Of it, credit that was given."""
    earned_microusd: int
    """Of it, earnings that are less than the least that is sent."""
    called_off_transfers: list[str]
    """References of announced bank transfers. What arrives for them later does not become credit."""
