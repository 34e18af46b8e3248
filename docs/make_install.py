"""Write what `pip install` is given into the README, the pages and the notebooks.

    python docs/make_install.py [--check]

One line of mkdocs.yml says it: `extra: install:`. With --check nothing is written, and
the script fails if a file says something else.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent
COMMAND = "python docs/make_install.py"
NAME = "dynetjax"
PLAIN = re.compile(rf"(pip install (?:-q )?)(?:git\+[^\s`\"\\]+|{NAME})(?=[\s`\"\\])")
EXTRA = re.compile(rf"(pip install )'{NAME}(\[cuda\])[^']*'")


def files() -> list[pathlib.Path]:
    """What tells how to install."""
    pages = [ROOT / "README.md", ROOT / "docs/index.md", ROOT / "docs/quickstart.md"]
    return [*pages, *sorted((ROOT / "notebooks").glob("*.ipynb"))]


def setting(name: str) -> str:
    """A line of mkdocs.yml."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^ *{name}: (\S+)$", text, re.MULTILINE)
    return found


def rewritten(text: str, source: str) -> str:
    """A file's text as it has to be, where pip is given `source`."""
    extra = f"{NAME}\\2" + ("" if source == NAME else f" @ {source}")
    return EXTRA.sub(rf"\1'{extra}'", PLAIN.sub(rf"\g<1>{source}", text))


def main() -> None:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    source = setting("install")
    for file in files():
        text = file.read_text(encoding="utf-8")
        wanted = rewritten(text, source)
        if wanted == text:
            continue
        if check:
            sys.exit(f"{file.relative_to(ROOT)} is out of date: run {COMMAND}")
        file.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
