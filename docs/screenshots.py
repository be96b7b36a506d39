"""Take the pictures of the page at /: `make screenshots` serves the demo and opens it in Chromium, light and dark.

Prints how long the page took to load and how much was sent, too. `make screenshots ARGS=FOLDER` takes a models folder
that has the demo already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

PICTURES = Path(__file__).with_name("pages") / "pictures"
PORT = 8099
ADDRESS = f"http://127.0.0.1:{PORT}/"
# Somebody new who likes three things, at a budget that misses some of them.
QUESTION = "#kind=items&items=jazz-0007,opera-0020,chess-0003&budget=12"
SIZES = {"page": (1280, 1120, 1), "phone": (390, 844, 2)}
COLOURS = 128
PATIENCE = 300


def wait_ready() -> None:
    """Wait until the service is ready."""
    end = monotonic() + PATIENCE
    while True:
        try:
            with urlopen(f"{ADDRESS}health/ready"):  # noqa: S310 - the address is ours
                return
        except URLError:
            if monotonic() > end:
                raise
            sleep(0.2)


def take(browser: Browser, name: str, colours: str) -> None:
    """Take one picture."""
    width, height, scale = SIZES[name]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if colours == "dark" else "light",
        device_scale_factor=scale,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(ADDRESS + QUESTION)
    page.locator("#latency tbody tr").first.wait_for()
    page.locator("#exact li").nth(9).wait_for()
    page.get_by_text("Little Piano Solos").first.wait_for()
    if name == "phone":
        page.locator("#budget-part").evaluate("card => scrollTo(0, card.offsetTop - 12)")
    path = PICTURES / f"{name}-{colours}.png"
    page.screenshot(path=path, animations="disabled")
    shrink(path)
    if (name, colours) == ("page", "light"):
        page.locator("#budget-part").screenshot(path=PICTURES / "curve.png", animations="disabled")
        shrink(PICTURES / "curve.png")
    context.close()


def shrink(path: Path) -> None:
    """Make a picture small: few colours are enough for it."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
    sys.stdout.write(f"{path.name}: {path.stat().st_size // 1024} KB\n")


def measure(browser: Browser) -> None:
    """Print what a first visit takes."""
    context = browser.new_context()
    page = context.new_page()
    sent: list[float] = []
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sent.append(event["encodedDataLength"]))
    page.goto(ADDRESS + QUESTION)
    page.locator("#latency tbody tr").first.wait_for()
    load = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    context.close()
    sys.stdout.write(f"loaded in {load:.0f} ms; {sum(sent) / 1000:.0f} kB in {len(sent)} answers\n")


def main() -> None:
    """Serve, take, stop."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        budgetrec = Path(sys.executable).with_name("budgetrec")
        models = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/models"
        command = [budgetrec, "demo", "--models", models, "--port", str(PORT)]
        service = subprocess.Popen(command, env={**os.environ, "BUDGETREC_LOG_LEVEL": "warning"})  # noqa: S603
        try:
            wait_ready()
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for name in SIZES:
                    for colours in ("light", "dark"):
                        take(browser, name, colours)
                for _ in range(3):
                    measure(browser)
                browser.close()
        finally:
            service.terminate()
            service.wait()


if __name__ == "__main__":
    main()
