"""Whether a built site works from disk: every link of every page leads to a file, and to a place in it if
it names one, and nothing that a page shows comes from the network. usage: check.py FOLDER"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.links, self.shown, self.places = [], [], set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.add(attributes.get("id") or attributes.get("name"))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif tag == "link" and attributes.get("rel") in ("stylesheet", "icon"):
            self.shown.append(attributes["href"])
        elif attributes.get("src"):
            self.shown.append(attributes["src"])


def main(folder):
    pages = {file.resolve(): Page(file) for file in folder.rglob("*.html")}
    links, mistakes = 0, []
    for file, page in sorted(pages.items()):
        for link in page.links + page.shown:
            links += 1
            parts = urllib.parse.urlsplit(link)
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            place = urllib.parse.unquote(parts.fragment)
            if parts.scheme or parts.netloc:
                if link in page.shown and parts.scheme != "data":
                    mistakes.append(f"{file}: {link} is not on this disk")
            elif not target.is_file():
                mistakes.append(f"{file}: {link} leads nowhere")
            elif place and target in pages and place not in pages[target].places:
                mistakes.append(f"{file}: {link}: no such place")
    if "searchindex.js" not in (path.name for path in folder.iterdir()):
        mistakes.append(f"{folder}: the search has no index")
    print(*mistakes, f"{len(pages)} pages, {links} links, {len(mistakes)} mistakes", sep="\n")
    return bool(mistakes) or len(pages) < 50


sys.exit(main(pathlib.Path(sys.argv[1])))
