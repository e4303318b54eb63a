"""What tests in a headless browser share: Chromium itself, how a page is shown, what it complains of."""
import os
import pathlib
import shutil
import sys
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

SKIPPED = 77
LIBRARY = (pathlib.Path(__file__).parent / "page_checks.js").read_text()
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_tool(names):
    return next((path for path in map(shutil.which, names) if path), None)


def start_browser():
    options = Options()
    options.binary_location = find_tool(BROWSERS)
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium refuses to run as root otherwise
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(find_tool(("chromedriver",))), options=options)


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def script(self, code, *arguments):
        return self.browser.execute_script(LIBRARY + code, *arguments)

    def command(self, name, **parameters):
        return self.browser.execute_cdp_cmd(name, parameters)

    def emulate(self, scheme="light", media="", width=1280, height=900):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )
        self.command(
            "Emulation.setEmulatedMedia",
            media=media, features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def check_log(self, page=""):
        """What the browser complains of is a failure."""
        complaints = [entry["message"] for entry in self.browser.get_log("browser")]
        self.assertEqual(complaints, [], page)


def main(arguments):
    """Runs the tests of the program; `arguments` may name some."""
    if not find_tool(BROWSERS) or not find_tool(("chromedriver",)):
        print("skipped: no Chromium with its driver (Debian: apt-get install chromium chromium-driver)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *arguments], verbosity=2)
