"""Text as it can be seen: what would steer a terminal, or hide in a line, is spelled out."""

from __future__ import annotations

import re

__all__ = ["one_line", "visible"]

# What would not be seen, or turns the text around it: controls (the terminal's escape sequences begin with one), marks
# of direction, joints of no width, halves of characters, tags.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str, *, keep: str = "") -> str:
    r"""Text without what can't be seen, but for characters to keep. Ids, headers and paths are data, whoever made them.

    >>> print(visible("a\x1b[2J\tb\n\udcff"), visible("a\nb", keep="\n"), sep="|")
    a\x1b[2J\tb\n\udcff|a
    b
    """
    return _UNSEEN.sub(lambda found: found[0] if found[0] in keep else _spelled(found[0]), text)


def one_line(message: object) -> str:
    r"""What is told to people in one line: the lines of an error follow one another.

    >>> print(one_line(ValueError("no\nway\x07")))
    no way\x07
    """
    return visible(" ".join(str(message).split("\n")))


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
