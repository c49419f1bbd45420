"""What the pictures share: SVG by hand, the same bytes for the same figures, readable on light and dark pages."""

from __future__ import annotations

from html import escape
from typing import Any

# The picture brings its own ground, so that it can be read on any page; where the reader prefers dark, that is dark.
_STYLE = """
  .ground { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .faint { fill: #656d76; font-size: 12px }
  .strong { font-weight: 600 }
  .grid { stroke: #d8dee4 }
  .even { stroke: #656d76 }
  .goal { stroke: #1f2328; stroke-width: 2.5 }
  .series { fill: none !important; stroke-width: 2 }
  .a { fill: #1a7f64; stroke: #1a7f64 } .b { fill: #8250df; stroke: #8250df } .c { fill: #bf5b04; stroke: #bf5b04 }
  .d { fill: #0969da; stroke: #0969da } .e { fill: #cf222e; stroke: #cf222e }
  .bar { fill: #1a7f64 } .short { fill: #bf8700 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 }
    .faint { fill: #8d96a0 }
    .grid { stroke: #21262d }
    .even { stroke: #8d96a0 }
    .goal { stroke: #e6edf3 }
    .a { fill: #3fb950; stroke: #3fb950 } .b { fill: #a371f7; stroke: #a371f7 } .c { fill: #f0883e; stroke: #f0883e }
    .d { fill: #58a6ff; stroke: #58a6ff } .e { fill: #ff7b72; stroke: #ff7b72 }
    .bar { fill: #2ea371 } .short { fill: #d29922 }
  }
"""


class Drawing:
    """Shapes one over another."""

    def __init__(self, width: int, height: int, told: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{escape(told)}">\n<title>{escape(told)}</title>\n<style>{_STYLE}</style>'
        )
        self._shapes: list[str] = []
        self.add("rect", "ground", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8)

    def add(self, shape: str, kind: str, **places: Any) -> None:
        """A shape of a class of the style, with numbers cut to what can be seen."""
        written = "".join(f' {name.replace("_", "-")}="{_number(value)}"' for name, value in places.items())
        self._shapes.append(f'<{shape} class="{kind}"{written}/>')

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text that starts, has its middle or ends at a place."""
        self._shapes.append(
            f'<text class="{kind}" x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self) -> str:
        """All of it."""
        return "\n".join([self._head, *self._shapes, "</svg>", ""])


def _number(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
