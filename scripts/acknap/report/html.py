"""The report as one HTML file that needs nothing else."""

import re
from collections.abc import Mapping

from markdown_it import MarkdownIt

_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; color: #1a1a1a;
       font: 16px/1.5 system-ui, sans-serif; background: #fff; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; padding-bottom: .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { border: 1px solid #d0d0d0; padding: .3rem .55rem; vertical-align: top; }
th { background: #f2f2f2; text-align: left; }
td.right, th.right { text-align: right; }
tbody tr:nth-child(even) { background: #fafafa; }
figure { margin: 1.5rem 0; }
svg { max-width: 100%; height: auto; }
code { background: #f2f2f2; padding: 0 .25em; overflow-wrap: anywhere; }
td code { white-space: nowrap; }
.holds { color: #00513b; font-weight: 600; white-space: nowrap; }
.fails { color: #9c2a00; font-weight: 600; white-space: nowrap; }
.open { color: #555; white-space: nowrap; }
"""
_VERDICTS = {
    "holds": "holds",
    "does not hold": "fails",
    "not measured": "open",
    "reported": "open",
}


def render(markdown: str, plots: Mapping[str, str]) -> str:
    """Return the page: the report's Markdown, with its plots inside.

    Args:
        markdown: The report; an image's source names a plot.
        plots: SVG by file name.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = parser.render(markdown)
    body = re.sub(r' style="text-align:right"', ' class="right"', body)
    body = body.replace("<table>", '<div class="wide"><table>')
    body = body.replace("</table>", "</table></div>")
    for word, style in _VERDICTS.items():
        body = body.replace(f"<td>{word}</td>", f'<td class="{style}">{word}</td>')
    for number, (name, svg) in enumerate(plots.items()):
        body = re.sub(
            rf'<p><img src="{re.escape(name)}" alt="([^"]*)" ?/></p>',
            lambda found, svg=svg, number=number: _figure(svg, found[1], number),  # type: ignore[misc]
            body,
        )
    title = re.search(r"<h1>(.*?)</h1>", body)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title[1] if title else 'Report'}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _figure(svg: str, text: str, number: int) -> str:
    """Return a plot as part of the page; its ids must differ from the others'."""
    svg = svg[svg.index("<svg") :]
    for name in set(re.findall(r'\bid="([^"]+)"', svg)):
        escaped = re.escape(name)
        svg = re.sub(rf'\bid="{escaped}"', f'id="p{number}-{name}"', svg)
        svg = re.sub(rf"#{escaped}(?=[\")])", f"#p{number}-{name}", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{text}" ', 1)
    return f"<figure>{svg}</figure>"
