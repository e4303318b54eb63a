"""Opens the pages of a built site from disk, as a reader would: on a phone, light and dark, and searches.

usage: run.sh site_test.py FOLDER [TEST...]
"""
import pathlib
import sys
import time

import browser

SITE = pathlib.Path()
PHONE = 360


class SiteTest(browser.BrowserTest):
    def open(self, page, query=""):
        self.browser.get((SITE / page).as_uri() + query)

    def pages(self):
        pages = sorted(SITE.rglob("*.html"))
        self.assertGreater(len(pages), 50)
        return [page.relative_to(SITE).as_posix() for page in pages]

    def test_every_page(self):
        """On a phone: nothing sticks out, every picture is there, text stands out by day and by night."""
        texts = pictures = 0
        for page in self.pages():
            self.emulate(width=PHONE, height=740)
            self.open(page)
            for width in self.script("return widths('.content');"):  # code and tables scroll by themselves
                self.assertLessEqual(width, PHONE, page)
            for source, loaded in self.script("return pictures();"):
                self.assertTrue(loaded, f"{page}: {source}")
                pictures += 1
            self.script("withoutTransitions();")
            for scheme in ("light", "dark"):
                self.emulate(scheme=scheme, width=PHONE, height=740)
                for contrast, text in self.script("return contrasts();"):
                    self.assertGreaterEqual(contrast, 4.5, f"{page}, {scheme}: {text}")
                    texts += 1
            self.check_log(page)
        self.assertGreater(texts, 10000)
        self.assertGreater(pictures, 1)

    def test_light_and_dark_differ(self):
        lightness = {}
        for scheme in ("light", "dark"):
            self.emulate(scheme=scheme)
            self.open("README.html")
            lightness[scheme] = self.script("return luminance(behind(document.querySelector('article')));")
        self.assertGreater(lightness["light"], 0.8)
        self.assertLess(lightness["dark"], 0.1)

    def found(self, word):
        """The pages that the search finds."""
        self.open("search.html", f"?q={word}")
        for _ in range(100):
            if self.script("return /finished|did not match/.test(document.body.innerText);"):
                break
            time.sleep(0.1)
        else:
            self.fail("the search does not end")
        self.check_log(word)
        return self.script("return [...document.querySelectorAll('#search-results li a')].map(a => a.href)")

    def test_search(self):
        self.emulate()
        self.assertIn("/lessons/45_wgmma/README.html", " ".join(self.found("wgmma")))
        self.assertEqual(self.found("xyzzyxyzzy"), [])

    def test_chart_can_be_read(self):
        """The first picture of the first page: its letters on a phone, and its colours by day and by night."""
        self.emulate(width=PHONE, height=740)
        self.open("README.html")
        source, shown = self.script(
            "const image = document.querySelector('article img'); return [image.src, image.width];")
        self.assertIn("fashion_mnist_cnn_batch64", source)
        for scheme in ("light", "dark"):
            self.emulate(scheme=scheme)
            self.browser.get(source)
            chart = self.script("return drawn();")
            self.assertGreater(len(chart["texts"]), 20)
            for text in chart["texts"]:
                what = f"{scheme}: {text['words']}"
                self.assertGreater(text["size"] * shown / chart["width"], 8, what)
                self.assertGreaterEqual(text["contrast"], 4.5, what)
                self.assertGreaterEqual(text["left"], 0, what)
                self.assertLessEqual(text["right"], chart["width"], what)
            self.assertEqual(chart["overlaps"], [])
            for contrast in chart["bars"]:
                self.assertGreaterEqual(contrast, 3, scheme)


if __name__ == "__main__":
    SITE = pathlib.Path(sys.argv[1]).resolve()
    if not (SITE / "README.html").exists():
        print(f"skipped: there is no site in {SITE}; the test 'site' builds it where there is Sphinx")
        sys.exit(browser.SKIPPED)
    browser.main(sys.argv[2:])
