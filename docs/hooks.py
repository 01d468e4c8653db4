"""Generated pages of the site: the README, other files of the root, and the help of every verb."""

import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "index.md": "README.md",
    "development/contributing.md": "CONTRIBUTING.md",
    "development/security.md": "SECURITY.md",
    "development/changelog.md": "CHANGELOG.md",
}


def on_files(files: Files, config) -> Files:
    """Add the generated pages."""
    for page, source in PAGES.items():
        text = relinked((ROOT / source).read_text(encoding="utf-8"), page)
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    return files


def on_page_content(html: str, **_) -> str:
    """Show ``:class:`Name` `` of a docstring as code."""
    return re.sub(r":(?:attr|class|func|meth|mod):(?=<code>|<a )", "", html)


def relinked(text: str, page: str) -> str:
    """Markdown of a file in the root of the project, with its links as the page needs them."""
    up = "../" * page.count("/")
    places = {source: target for target, source in PAGES.items()}

    def replace(match: re.Match[str]) -> str:
        target, anchor, rest = match[1].partition("#")
        if target.startswith("docs/"):
            return f"]({up}{target.removeprefix('docs/')}{anchor}{rest})"
        return f"]({up}{places[target]}{anchor}{rest})" if target in places else match[0]

    return re.sub(r"\]\(([^)\s]+)\)", replace, text)


def command_line() -> str:
    """The reference of the command line: what every verb prints as its help."""
    from positively.cli import VERBS

    lines = ["# Command line", "", "The text of this page is what the program prints.", "", *fenced("--help")]
    for verb in VERBS:
        lines += ["", f"## {verb}", "", *fenced(verb, "--help")]
        more = [f"    {line}".rstrip() for line in fenced(verb, "--help-all")]
        lines += ["", f'??? note "positively {verb} --help-all"', "", *more]
    return "\n".join(lines) + "\n"


def fenced(*words: str) -> list[str]:
    """A block with what the program prints for these words."""
    from positively.cli import main

    printed = io.StringIO()
    os.environ["COLUMNS"] = "80"
    with redirect_stdout(printed):
        try:
            code = main(list(words))
        except SystemExit as end:
            code = end.code
    if code:
        raise RuntimeError(f"positively {' '.join(words)} exits with {code}.")
    return ["```text", *printed.getvalue().rstrip().splitlines(), "```"]
