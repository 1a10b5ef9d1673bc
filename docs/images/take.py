"""Takes the picture of the live page in the README from a real job: ``python docs/images/take.py JOB``.

The job is looked up under ``AUTOTUNE_HOME``; Debian's chromium draws it without a window. For example after
``autotune launch quickstart``: ``python docs/images/take.py quickstart-1``. ``--dark``, ``--width`` and ``--out`` take
other pictures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from autotune.api import create_app  # noqa: E402
from autotune.service import open_service  # noqa: E402
from autotune.settings import load_settings  # noqa: E402
from tests.serving import served  # noqa: E402
from tests.web.browser import Browser, find_chromium  # noqa: E402

PLOTTED = "document.querySelectorAll('#curves .main-svg').length && document.querySelector('#trials tbody tr')"
COLOURS = 96


def main() -> int:
    """Takes the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", help="id of the job")
    parser.add_argument("--out", type=Path, default=HERE / "live-page.png")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1250)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    program = find_chromium()
    if program is None:
        sys.exit("error: no chromium here; install it with: apt-get install chromium")
    settings = load_settings()
    service = open_service(settings)
    service.job(options.job)
    with tempfile.TemporaryDirectory() as folder, served(create_app(service, settings)) as url:
        browser = Browser(program, Path(folder))
        where = f"{url}/#/jobs/{options.job}"
        page = browser.open(where, width=options.width, height=options.height, dark=options.dark)
        page.wait(PLOTTED)
        page.evaluate("new Promise((done) => setTimeout(done, 1500))")  # plots settle
        page.screenshot(options.out, whole=False)
        errors = page.errors
        page.close()
        browser.close()
    # A page of text and lines needs few colours; the file is a fifth of what the browser writes.
    Image.open(options.out).convert("RGB").quantize(COLOURS).save(options.out, optimize=True)
    sys.stdout.write(f"{options.out}: {options.out.stat().st_size / 1000:.0f} kB\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
