"""Pictures of the console, of the scene in `scene.py`. `scripts/screenshots FOLDER [PAGE …]`."""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, chromium
from tests.browser.scene import Scene, paint
from tests.browser.world import World

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


def addresses(scene: Scene) -> dict[str, str]:
    running = f"{scene.project}/containers/{scene.running}"
    return {
        "sign-in": "/login",
        "service-running": running,
        "service-failed": f"{scene.project}/containers/{scene.failed}",
        "service-pulling": f"{scene.project}/containers/{scene.pulling}",
        "list": f"{scene.project}/containers",
        "create": f"{scene.project}/create?copy={scene.running}",
        "api-keys": f"{scene.project}/api-keys",
        "members": f"{scene.project}/members",
        "billing": f"{scene.project}/billing",
        "audit": f"{scene.project}/audit",
        "invitation": f"/invitations/{scene.invitation}",
        "overview": f"{running}/overview",
        "metrics": f"{running}/metrics",
        "metrics-empty": f"{scene.project}/containers/{scene.stopped}/metrics",
        "logs": f"{running}/logs",
        "activity": f"{running}/activity",
        "playground": f"{running}/playground",
        "settings": f"{scene.project}/containers/{scene.stopped}/settings",
        "settings-staged": f"{running}/settings",
        "webhooks": f"{scene.project}/webhooks",
        "account": "/account",
        "operator-organizations": "/operator/organizations",
        "operator-users": "/operator/users",
        "operator-transfers": "/operator/transfers",
        "operator-requests": "/operator/requests",
        "operator-revenue": "/operator/revenue",
        "operator-outbox": "/operator/outbox",
    }


def main(folder: Path, wanted: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    world = World()
    world.start()
    try:
        scene = paint(world)
        cookie = {"name": "moorage_session", "value": scene.home.token, "url": world.url}
        pages = {name: path for name, path in addresses(scene).items() if not wanted or name in wanted}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
            for scheme in ("light", "dark"):
                for shape, size in (("wide", WIDE), ("phone", PHONE)):
                    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                    context.add_cookies([cookie])  # type: ignore[list-item]
                    page = context.new_page()
                    for name, path in pages.items():
                        page.goto(f"{world.url}{path}")
                        page.wait_for_selector("h1", state="attached")
                        page.wait_for_timeout(700)
                        page.screenshot(path=folder / f"{name}-{shape}-{scheme}.png")
                    context.close()
            browser.close()
    finally:
        world.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
