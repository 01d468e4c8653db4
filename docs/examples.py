"""Extension of griffe: examples of a docstring become blocks of code, also outside a section ``Examples``."""

import re

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.M)


class Examples(griffe.Extension):
    """Puts every example into a block."""

    def on_object(self, *, obj, **_) -> None:
        """Rewrite the docstring of one object, before it is parsed."""
        if obj.docstring and ">>> " in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
