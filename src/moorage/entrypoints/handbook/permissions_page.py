"""Who may do what, from `organizations/permissions.py`."""

from moorage.entrypoints.handbook.words import code, sentences_of, table
from moorage.organizations.permissions import Permission, Role, allows


def page() -> str:
    meanings = sentences_of(Permission)
    rows = [
        (code(one), meanings[one.name], *("yes" if allows(role, one) else "–" for role in Role))
        for one in Permission
    ]
    return f"""# Permissions

A member of an organization is an `admin` or a `user`. A `user` has their rights in the projects they joined, an `admin` in all
projects of the organization.

{table(("permission", "allows", *(code(role) for role in Role)), rows)}
## Keys and operators

| who | may |
|---|---|
| an API key with scope `inference` | call the endpoints of its project's containers |
| an API key with scope `manage` | do what a `user` of its one project may, and call its endpoints |
| an operator of the installation | use the *Operator* area: machines, prices, limits, people, payments. Inside an organization an operator is what their membership says |

What somebody may not see answers 404, as if it did not exist. What they see and may not change answers 403.
"""
