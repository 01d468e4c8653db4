"""What stands in a report: shared by the tests of reports."""

import re
from html.parser import HTMLParser


def text_of(run):
    return (run.path / "report.html").read_text(encoding="utf-8")


def headings(page):
    return re.findall(r"<h2>(.*?)</h2>", page)


def rows_of(page, title):
    """Cells of a table of the page, row by row."""
    table = page.split(f'aria-label="{title}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]


class Addresses(HTMLParser):
    """Collects what a page would fetch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        names = ("src", "href", "xlink:href", "srcset", "poster", "data", "action")
        self.found += [value for name, value in attributes if name in names]


def assert_stands_alone(page):
    addresses = Addresses()
    addresses.feed(page)
    assert not [value for value in addresses.found if not value.startswith(("data:image/", "#"))]
    assert "http:" not in page and "https:" not in page and "@import" not in page
    assert not re.findall(r"url\((?!#)", page)
