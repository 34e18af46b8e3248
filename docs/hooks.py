"""For mkdocs: what its pages get while the site is built.

A line ``::: dynetjax.Name`` of docs/api becomes what the docstrings say. A method
that several classes have is told once, and the others refer to it.
"""

import inspect
import pydoc
import re
from typing import Any

from make_reference import API, DOCS, NAMED, laid_out, signature, slug

from dynetjax.compat.hints import FOR_THE_ENGINE

PART_FOR_THE_ENGINE = re.compile(
    r"^What follows is for the engine.*?(?=^Examples:)", re.DOTALL | re.MULTILINE
)
Told = dict[tuple[str, str], str]  # a method and its docstring: a link to its class


def members(cls: type) -> list[tuple[str, Any]]:
    """Methods and properties of a class that a user calls, those of bases first."""
    found: dict[str, Any] = {}
    hidden = {n for base in cls.__mro__ for n in FOR_THE_ENGINE.get(base, "").split()}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("dynetjax"):
            continue
        for name, value in vars(base).items():
            of_users = name[0] != "_" and name not in hidden
            called = inspect.isroutine(value) or isinstance(value, property)
            told = of_users and called and hasattr(cls, name)  # not only advice
            if told and inspect.getdoc(getattr(cls, name)):
                found[name] = getattr(cls, name)
    return list(found.items())


def titled(level: str, name: str, shown: str, doc: str) -> str:
    """A heading, what to type, and the text."""
    return f"{level} `{name}`\n\n```py\n{shown}\n```\n\n{doc}"


def typed(value: Any, name: str) -> str:
    """``name(arguments)``, or the name alone of what takes none that are known."""
    try:
        return signature(value, name)
    except ValueError:
        return name


def described(name: str, file: str, told: Told) -> str:
    """A name of the package as Markdown; `told` learns which methods it tells."""
    value: Any = pydoc.locate(f"dynetjax.{name}")
    of = "dynetjax" if name.startswith("testing.") else "dy"
    here = f"[`{name}`]({file}#{slug(name)})"
    doc = laid_out(PART_FOR_THE_ENGINE.sub("", inspect.getdoc(value) or ""), {})
    blocks = [titled("##", name, typed(value, f"{of}.{name}"), doc)]
    elsewhere: dict[str, list[str]] = {}
    for member, method in members(value) if inspect.isclass(value) else ():
        text = inspect.getdoc(method) or ""
        place = told.setdefault((member, text), here)
        if place != here:
            elsewhere.setdefault(place, []).append(member)
            continue
        is_property = isinstance(method, property)
        shown = member if is_property else typed(method, member)
        blocks.append(titled("###", f"{name}.{member}", shown, laid_out(text, {})))
    blocks += [
        f"Also has, as {place}: " + ", ".join(f"`{m}`" for m in names) + "."
        for place, names in elsewhere.items()
    ]
    return "\n\n".join(blocks)


def told_pages() -> dict[str, str]:
    """The pages of docs/api; graphs are first, as parameters are expressions."""
    told: Told = {}
    pages = {}
    for file in sorted(API, key=lambda file: file != "graphs.md"):
        text = (DOCS / "api" / file).read_text(encoding="utf-8")
        pages[f"api/{file}"] = NAMED.sub(
            lambda found, file=file: described(found[1], file, told), text
        )
    return pages


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page; search lists the engine's pages last."""
    if any(section.title == "Inside" for section in page.ancestors):
        page.meta["search"] = {"boost": 0.2}
    if not re.search(NAMED, markdown):
        return markdown
    return told_pages()[page.file.src_uri]


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """In the table of contents a method's name is enough: it is below its class."""
    for whole in page.toc:
        for of_class in whole.children:
            for member in of_class.children:
                member.title = member.title.removeprefix(f"{of_class.title}.")
    return html
