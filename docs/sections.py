"""For mkdocstrings: our docstrings have no blank lines between their sections."""

import re
from typing import Any

import griffe

_TITLES = re.compile(r"\n+(?=(?:Args|Attributes|Examples|Raises|Returns|Source):)")


class Sections(griffe.Extension):
    """Puts a blank line before each section, which the parser asks for."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """See `griffe.Extension`."""
        if obj.docstring:
            obj.docstring.value = _TITLES.sub("\n\n", obj.docstring.value)
