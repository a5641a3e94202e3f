"""The drawings of docs/how-it-works.md: `python docs/plots/drawings.py` writes them, and a test compares.

Plain Python and plain SVG. They bring their own ground, light or dark as the reader's system is, so that they can be read
on any page; and they are narrow, with large letters, so that a telephone can show them.
"""

from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
WIDTH = 600

STYLE = """
.ground{fill:#fff}.box{fill:#f6f8fa;stroke:#57606a}.held{fill:#e6f4ea;stroke:#1a6b3c}.core{fill:#fff3d6;stroke:#9a6700}
.free{fill:none;stroke:#57606a;stroke-dasharray:4 3}.line{fill:none;stroke:#57606a;stroke-width:1.5}.tip{fill:#57606a}
text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#24292f}
.code{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;font-size:13px}
.name{font-weight:600}.small{font-size:12.5px;fill:#57606a}.middle{text-anchor:middle}.end{text-anchor:end}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}.box{fill:#161b22;stroke:#8b949e}.held{fill:#10291a;stroke:#6fcf97}
.core{fill:#332701;stroke:#d4a72c}.free{stroke:#8b949e}.line{stroke:#8b949e}.tip{fill:#8b949e}text{fill:#e6edf3}
.small{fill:#9da7b3}}
"""


class Drawing:
    """A list of SVG elements and a height."""

    def __init__(self, height, title):
        self.height, self.title, self.parts = height, title, []

    def box(self, x, y, width, height, kind="box"):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>')

    def text(self, x, y, text, kind=""):
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" xml:space="preserve">{escape(text)}</text>')

    def lines(self, x, y, texts, kind="", step=20):
        for number, text in enumerate(texts):
            self.text(x, y + number * step, text, kind)

    def arrow(self, *points):
        """Along the points, which lie on horizontals and verticals; its tip at the last."""
        (x0, y0), (x1, y1) = points[-2:]
        dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        base = (x1 - 8 * dx, y1 - 8 * dy)
        tip = [(x1, y1), (base[0] - 4 * dy, base[1] - 4 * dx), (base[0] + 4 * dy, base[1] + 4 * dx)]
        self.parts.append(f'<path class="line" d="{path}"/>')
        self.parts.append(f'<polygon class="tip" points="{" ".join(f"{x},{y}" for x, y in tip)}"/>')

    def svg(self):
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}"']
        parts[0] += f' height="{self.height}" role="img">'
        parts += [f"<title>{escape(self.title)}</title>", f"<style>{STYLE}</style>"]
        parts += [f'<rect class="ground" width="{WIDTH}" height="{self.height}" rx="6"/>', *self.parts, "</svg>"]
        return "\n".join(parts) + "\n"


def increx():
    """From the Python call down to the record and back."""
    page = Drawing(660, "The life of one increx: arguments, lock, rule, write, result")
    page.box(20, 16, 350, 36)
    page.text(34, 39, 'counters.increx("rate:user42", 60)', "code")
    page.text(388, 39, "a Python call", "small")
    page.arrow((60, 52), (60, 76))

    page.box(20, 76, 350, 94)
    page.text(34, 98, "arguments", "name")
    page.text(356, 98, "_args.pxd", "code end small")
    page.lines(34, 120, ["the key: its bytes, not copied, and its hash", "60: in nanoseconds", "ranges are judged here too"])
    page.arrow((370, 123), (400, 123))
    page.lines(408, 108, ["TypeError, ValueError:", "nothing was touched yet"], "small")

    page.box(8, 184, 584, 372, "held")
    page.lines(74, 206, ["one atomic step: the lock is held, and no Python object is made or dropped"], "small")
    page.arrow((60, 170), (60, 220))

    page.box(20, 220, 350, 94)
    page.text(34, 242, "begin()", "code name")
    page.text(356, 242, "_step.pxd", "code end small")
    page.lines(34, 264, ["take the lock; find the index slot and", "ask for the record; read the clock while", "it comes; copy value and deadline"])
    page.arrow((60, 314), (60, 338))
    page.box(400, 220, 180, 94, "free")
    page.lines(412, 242, ["the copy"], "small")
    page.lines(412, 266, ["value     0", "deadline  none", "now       t"], "code")

    page.box(20, 338, 350, 94, "core")
    page.text(34, 360, "increx()", "code name")
    page.text(356, 360, "_rules.pxd", "code end small")
    page.lines(34, 382, ["value + 1; if that is 1 and no TTL runs,", "deadline = now + ttl. Plain arithmetic on", "the copy; says OK, OVERFLOW or BAD_TIME"])
    page.arrow((60, 432), (60, 456))
    page.box(400, 338, 180, 94, "free")
    page.lines(412, 360, ["the copy, after"], "small")
    page.lines(412, 384, ["value     1", "deadline  t + 60 s"], "code")
    page.arrow((490, 314), (490, 338))

    page.box(20, 456, 350, 86)
    page.text(34, 478, "finish()", "code name")
    page.text(356, 478, "_step.pxd", "code end small")
    page.lines(34, 500, ["OK: write the copy back. Else: write nothing.", "Now and then sweep; let go of the lock"])
    page.arrow((60, 542), (60, 580))
    page.arrow((490, 432), (490, 500), (370, 500))
    page.lines(402, 524, ["only if the rule said OK"], "small")

    page.box(20, 580, 350, 64)
    page.text(34, 604, "the int 1, or OverflowError, ValueError", "")
    page.text(34, 626, "only now is a Python object made", "small")
    return page


def map_():
    """Directory, segment, index, records."""
    page = Drawing(640, "The map: a directory of segments; in a segment an index over dense records")
    page.lines(20, 30, ["directory"], "name")
    page.lines(20, 50, ["2^depth pointers, chosen by the top bits of the hash"], "small")
    for number, bits in enumerate(("00", "01", "10", "11")):
        page.box(20 + 70 * number, 62, 70, 34)
        page.text(55 + 70 * number, 84, bits, "code middle")
    page.arrow((55, 96), (55, 146))
    page.arrow((125, 96), (125, 120), (400, 120), (400, 146))
    page.arrow((195, 96), (195, 112), (500, 112), (500, 146))
    page.arrow((265, 96), (265, 104), (520, 104), (520, 146))

    page.box(8, 146, 370, 478, "held")
    page.text(22, 170, "a segment of 800 to 3,200 records", "name")
    page.box(380 + 12, 146, 46, 34)
    page.box(480, 146, 60, 34)
    page.text(415, 168, "...", "middle")
    page.text(510, 168, "...", "middle")
    page.lines(392, 200, ["others; 10 and 11", "share one still. A full", "one splits in two"], "small")

    page.text(22, 202, "index: a uint32 each slot", "name")
    slots = ["-", "tag #3", "-", "tag #0", "-"]
    for number, slot in enumerate(slots):
        page.box(22 + 68 * number, 212, 68, 34)
        page.text(56 + 68 * number, 234, slot, "code middle" + (" small" if slot == "-" else ""))
    page.lines(392, 266, ["the tag, ten bits of the", "hash, rules others out"], "small")

    page.text(96, 304, "records", "name")
    page.box(96, 314, 270, 146, "core")
    page.text(84, 334, "#0", "code end")
    fields = ["hash        8 bytes", "value       8", "deadline    8", "key length  2", "kind, flags 2", "key         20"]
    page.lines(110, 336, fields, "code", 22)
    page.arrow((260, 246), (260, 314))
    for number, y in ((1, 468), (2, 504), (3, 540)):
        page.box(96, y, 270, 30, "core")
        page.text(84, y + 20, f"#{number}", "code end")
    page.arrow((124, 246), (124, 280), (36, 280), (36, 555), (60, 555))
    page.text(231, 598, "...", "middle")

    page.lines(392, 330, ["48 bytes, one after the", "other, in chunks of 64;", "no Python object is in", "the map"], "small")
    page.lines(392, 426, ["a key of more than 20", "bytes is allocated apart"], "small")
    page.lines(392, 488, ["a record that goes is", "replaced by the last one,", "and the index closes the", "gap: no tombstones"], "small")
    return page


DRAWINGS = {"increx.svg": increx, "map.svg": map_}

if __name__ == "__main__":
    for name, make in DRAWINGS.items():
        (HERE / name).write_text(make().svg(), encoding="utf-8")
