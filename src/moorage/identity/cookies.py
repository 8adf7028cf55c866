"""The cookies of a browser that is signed in, or on its way to a provider and back."""

from fastapi import Request, Response

from moorage.identity.providers.repository import ATTEMPT_LIFETIME
from moorage.identity.sessions.repository import TOTAL_LIMIT
from moorage.identity.sign_in.origins import DEVICE_LIFETIME
from moorage.kit.settings import Settings


def session_cookie(request: Request, settings: Settings) -> str:
    return request.cookies.get(_session_name(settings), "")


def set_session_cookie(response: Response, settings: Settings, token: str) -> None:
    _set(response, settings, _session_name(settings), token, int(TOTAL_LIMIT.total_seconds()))


def clear_session_cookie(response: Response, settings: Settings) -> None:
    _clear(response, settings, _session_name(settings))


def attempt_cookie(request: Request, settings: Settings) -> str:
    return request.cookies.get(_attempt_name(settings), "")


def set_attempt_cookie(response: Response, settings: Settings, token: str) -> None:
    _set(response, settings, _attempt_name(settings), token, int(ATTEMPT_LIFETIME.total_seconds()))


def clear_attempt_cookie(response: Response, settings: Settings) -> None:
    _clear(response, settings, _attempt_name(settings))


def device_cookie(request: Request, settings: Settings) -> str:
    return request.cookies.get(_device_name(settings), "")


def set_device_cookie(response: Response, settings: Settings, token: str) -> None:
    """Outlives the session: it lets its owner ask for codes while strangers ask for too many."""
    _set(response, settings, _device_name(settings), token, int(DEVICE_LIFETIME.total_seconds()))


def _session_name(settings: Settings) -> str:
    """`__Host-` binds the cookie to https and this host; browsers refuse that prefix on plain http."""
    return "__Host-moorage" if _is_https(settings) else "moorage_session"


def _attempt_name(settings: Settings) -> str:
    return "__Host-moorage-sign-in" if _is_https(settings) else "moorage_sign_in"


def _device_name(settings: Settings) -> str:
    return "__Host-moorage-device" if _is_https(settings) else "moorage_device"


def _set(response: Response, settings: Settings, name: str, value: str, max_age_s: int) -> None:
    secure = _is_https(settings)
    # Lax: a link from elsewhere, and the way back from a provider, arrive signed in; a foreign site's form does not.
    response.set_cookie(
        name, value, max_age=max_age_s, path="/", secure=secure, httponly=True, samesite="lax"
    )


def _clear(response: Response, settings: Settings, name: str) -> None:
    response.delete_cookie(name, path="/", secure=_is_https(settings), httponly=True, samesite="lax")


def _is_https(settings: Settings) -> bool:
    return settings.api_base_url.startswith("https://")
