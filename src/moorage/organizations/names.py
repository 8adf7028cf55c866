from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.names import checked_name


def check_name(name: str) -> None:
    try:
        checked_name(name)
    except ValueError as exc:
        raise InvalidInputError(f"The name {exc}.", fields=(FieldError("name", str(exc)),)) from exc
