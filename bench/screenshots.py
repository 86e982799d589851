"""Pictures of the console for README and docs, from `toolgen demo`: `python -m bench.screenshots`. It needs Debian's Chromium."""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = {"width": 1180, "height": 1180}
PICTURES = {"console-calls.png": "/console/calls"}
"""Files by the page of the console that they show."""
_CONSOLE = re.compile(r"^the console: (\S+)/console +key of the lead: (\S+)$", re.MULTILINE)


@contextmanager
def demo() -> Generator[tuple[str, str], None, None]:
    """Run the demo, and give the address of its gateway and the key of its reviewer while it stays."""
    command = [sys.executable, "-m", "toolgen", "demo", "--stay"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = ""
            for line in process.stdout or ():
                said += line
                if found := _CONSOLE.search(said):
                    yield found[1], found[2]
                    return
            raise SystemExit(f"the demo ended before it served a console:\n{said}")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def main() -> None:
    """Write every picture, into `--to` where that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=IMAGES)
    to = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    with demo() as (url, key), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]}, color_scheme="light")
        page.goto(f"{url}/console")
        page.fill("#credential", key)
        page.click("button[type=submit]")
        page.wait_for_selector("form.who")
        for name, path in PICTURES.items():
            page.goto(f"{url}{path}")
            page.wait_for_selector("main h1")
            page.screenshot(path=to / name)
            print(to / name)
        browser.close()


if __name__ == "__main__":
    main()
