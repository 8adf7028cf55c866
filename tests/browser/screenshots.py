"""Pictures of the console, of the scene in `scene.py`.

`scripts/screenshots FOLDER` makes those of the README, small enough for a repository; `scripts/screenshots FOLDER all`
every page in light and dark, wide and on a phone; `scripts/screenshots FOLDER PAGE …` some of them.
"""

import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import FLAGS, chromium
from tests.browser.roles import run_roles
from tests.browser.scene import Scene, paint
from tests.browser.world import World

MOMENT = datetime(2026, 11, 19, 15, 53, 20, tzinfo=UTC)
"""That all pictures show, so that they differ in nothing but how they look."""
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


def addresses(scene: Scene) -> dict[str, str]:
    running = f"{scene.project}/containers/{scene.running}"
    return {
        "sign-in": "/login",
        "service-running": running,
        "service-failed": f"{scene.project}/containers/{scene.failed}",
        "service-pulling": f"{scene.project}/containers/{scene.pulling}",
        "service-starting": f"{scene.project}/containers/{scene.starting}",
        "list": f"{scene.project}/containers",
        "notifications": running,
        "delete-organization": f"{scene.project}/containers",
        "create": f"{scene.project}/create?copy={scene.running}",
        "create-start": f"{scene.project}/create",
        "create-model": f"{scene.project}/create",
        "create-template": f"{scene.project}/create",
        "api-keys": f"{scene.project}/api-keys",
        "members": f"{scene.project}/members",
        "billing": f"{scene.project}/billing",
        "machines": f"{scene.project}/machines",
        "audit": f"{scene.project}/audit",
        "invitation": f"/invitations/{scene.invitation}",
        "overview": f"{running}/overview",
        "metrics": f"{running}/metrics",
        "metrics-empty": f"{scene.project}/containers/{scene.stopped}/metrics",
        "autoscaling": f"{running}/autoscaling",
        "capsules": f"{scene.project}/containers/{scene.failed}/capsules",
        "capsules-empty": f"{running}/capsules",
        "logs": f"{running}/logs",
        "request": scene.requests.woken,
        "request-failed": scene.requests.failed,
        "activity": f"{running}/activity",
        "versions": f"{running}/versions",
        "playground": f"{running}/playground",
        "settings": f"{scene.project}/containers/{scene.stopped}/settings",
        "settings-staged": f"{running}/settings",
        "webhooks": f"{scene.project}/webhooks",
        "account": "/account",
        "operator-home": "/operator/home",
        "operator-health": "/operator/health",
        "operator-organizations": "/operator/organizations",
        "operator-organization": f"/operator/organizations/{scene.home.organization_id}",
        "operator-users": "/operator/users",
        "operator-transfers": "/operator/transfers",
        "operator-payouts": "/operator/payouts",
        "operator-requests": "/operator/requests",
        "operator-machines": "/operator/machines",
        "operator-instance-types": "/operator/instance-types",
        "operator-revenue": "/operator/revenue",
        "operator-audit": "/operator/audit",
        "operator-outbox": "/operator/outbox",
    }


README = {
    "service": ("service-running", "light", "wide"),
    "failed": ("service-failed", "light", "wide"),
    "create": ("create-model", "light", "wide"),
    "metrics": ("metrics", "light", "wide"),
    "logs": ("logs", "dark", "wide"),
    "billing": ("billing", "light", "wide"),
    "operator": ("operator-instance-types", "light", "wide"),
    "phone": ("service-running", "light", "phone"),
}
WEBP_QUALITY = 0.9
SHAPES = {"wide": WIDE, "phone": PHONE}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(folder: Path, wanted: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    world = World(MOMENT)
    world.start()
    try:
        scene = paint(world)
        run_roles(world)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
            if wanted:
                pages = [name for name in addresses(scene) if wanted == ["all"] or name in wanted]
                for picture, png in pictures(browser, world, scene, pages, SCHEMES, tuple(SHAPES)):
                    (folder / f"{picture}.png").write_bytes(png)
            else:
                for title, (name, scheme, shape) in README.items():
                    for _, png in pictures(browser, world, scene, [name], (scheme,), (shape,)):  # type: ignore[arg-type]
                        (folder / f"{title}.webp").write_bytes(as_webp(browser, png))
            browser.close()
    finally:
        world.stop()


def pictures(
    browser: Browser,
    world: World,
    scene: Scene,
    pages: list[str],
    schemes: tuple[Literal["light", "dark"], ...],
    shapes: tuple[str, ...],
) -> Iterator[tuple[str, bytes]]:
    for scheme in schemes:
        for shape in shapes:
            context = browser.new_context(
                viewport=SHAPES[shape],  # type: ignore[arg-type]
                color_scheme=scheme,
                reduced_motion="reduce",
                device_scale_factor=2 if shape == "phone" else 1,
            )
            context.add_cookies([{"name": "moorage_session", "value": scene.home.token, "url": world.url}])
            context.clock.set_fixed_time(MOMENT)
            page = context.new_page()
            for name in pages:
                page.goto(f"{world.url}{addresses(scene)[name]}")
                page.wait_for_selector("h1", state="attached")
                page.wait_for_timeout(700)
                expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=30_000)
                arrange(page, name)
                page.mouse.move(0, 0)
                yield f"{name}-{shape}-{scheme}", page.screenshot()
            context.close()


def arrange(page: Page, name: str) -> None:
    """What somebody does on a page that begins empty."""
    if name == "notifications":
        page.get_by_role("button", name="Notifications").click()
        page.get_by_role("heading", name="Notifications").wait_for()
    elif name == "delete-organization":
        page.get_by_role("button", name="Organization: Northwind AI").click()
        page.get_by_role("menuitem", name="Delete organization").click()
        page.get_by_role("dialog").get_by_role("listitem").first.wait_for()
    elif name == "create":
        page.get_by_role("button", name="Next: Resources").click()
    elif name == "create-model":
        page.get_by_label("Model", exact=True).fill("hf:Qwen/Qwen2.5-7B-Instruct")
        page.get_by_role("radiogroup", name="Instance type").get_by_role("radio").first.wait_for()
    elif name == "create-template":
        page.get_by_role("radio", name="llama.cpp").check(force=True)
        page.get_by_role("radiogroup", name="Instance type").get_by_role("radio").first.wait_for()


def as_webp(browser: Browser, png: bytes) -> bytes:
    """A browser can write it, so no other tool is needed."""
    page = browser.new_page()
    url = page.evaluate(
        """async ([png, quality]) => {
            const image = new Image();
            image.src = `data:image/png;base64,${png}`;
            await image.decode();
            const canvas = new OffscreenCanvas(image.width, image.height);
            canvas.getContext("2d").drawImage(image, 0, 0);
            const blob = await canvas.convertToBlob({ type: "image/webp", quality });
            return await new Promise((read) => {
                const reader = new FileReader();
                reader.onload = () => read(reader.result);
                reader.readAsDataURL(blob);
            });
        }""",
        [b64encode(png).decode(), WEBP_QUALITY],
    )
    page.close()
    return b64decode(url.partition(",")[2])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
