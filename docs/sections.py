"""For mkdocstrings: docstrings as a user of the package wants to read them."""

import re
from typing import Any

import griffe

_TITLES = re.compile(r"\n+(?=(?:Args|Attributes|Examples|Raises|Returns|Source):)")
_PORTED = re.compile(r"\n+Source: clab/dynet.*?(?=\n\w+:\n|\n\n|\Z)", re.DOTALL)


class Sections(griffe.Extension):
    """Puts a blank line before each section, which the parser asks for.

    Lines that say which file of DyNet was ported go: whoever ports reads the code.
    """

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """See `griffe.Extension`."""
        if obj.docstring:
            text = _PORTED.sub("\n", obj.docstring.value)
            obj.docstring.value = _TITLES.sub("\n\n", text)
