"""Pictures of a flow: as lines of text, for Mermaid, and for Graphviz (DOT).

Named streams are boxes, and each is drawn once; steps that follow each other without state are one
shape, with a line for each; a join is one shape. Where the errors of all steps go is told by a note.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.errors import WrongType, shown
from millstream.flow.graph import Graph
from millstream.flow.node import DeadLetters, FromStream, Merge, Node, Pure, Sink, Source, Stateful
from millstream.flow.picture_text import text_of

FORMS = ("text", "mermaid", "dot")


def picture(graph: Graph, form: str) -> str:
    """The picture in one of the forms."""
    if form == "text":
        return text_of(graph)
    if form == "mermaid":
        return _mermaid(graph.name, _Drawing.of(graph))
    if form == "dot":
        return _dot(graph.name, _Drawing.of(graph))
    raise WrongType(f"graph({shown(form)}): expected {', '.join(map(repr, FORMS))}")


@dataclass(frozen=True)
class _Shape:
    kind: str  # stream, source, pure, state, merge, group or note
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Drawing:
    shapes: dict[str, _Shape]
    arrows: list[tuple[str, str, str, bool]]  # from, to, text, whether it is for errors only

    @classmethod
    def of(cls, graph: Graph) -> _Drawing:
        names: dict[Node, str] = {}
        shapes: dict[str, _Shape] = {}
        arrows: list[tuple[str, str, str, bool]] = []
        streams: dict[str, str] = {}

        def stream(name: str) -> str:
            if name not in streams:
                streams[name] = f"s{len(streams)}"
                shapes[streams[name]] = _Shape("stream", (name,))
            return streams[name]

        for node in graph.nodes:
            if isinstance(node, Sink):
                names[node] = stream(node.stream)
            elif isinstance(node, Source) and isinstance(node.origin, FromStream):
                names[node] = stream(node.origin.stream)
            elif graph.joined(node) is not None:
                names[node] = f"n{graph.targets[node][0][0].id}"
            elif node.quiet:
                names[node] = names[node.upstream[0]]
            elif _goes_on(graph, node):
                names[node] = name = names[node.upstream[0]]
                shapes[name] = _Shape("pure", (*shapes[name].lines, *_lines(node.label)))
            else:
                names[node] = name = f"n{node.id}"
                shapes[name] = _Shape(_kind(node), _lines(node.label))
            for place, upstream in enumerate(node.upstream):
                if names[upstream] != names[node]:
                    text = node.branches[place] if isinstance(node, Merge) and node.branches else ""
                    arrows.append((names[upstream], names[node], text, False))
            if isinstance(node.on_error, DeadLetters) and node.on_error != graph.on_error:
                arrows.append((names[node], stream(node.on_error.stream), "errors", True))
        if isinstance(graph.on_error, DeadLetters):
            shapes["errors"] = _Shape("note", ("errors of", "all steps"))
            arrows.append(("errors", stream(graph.on_error.stream), "", True))
        return cls(shapes, arrows)


def _goes_on(graph: Graph, node: Node) -> bool:
    """Whether a pure step is drawn in the shape of the one before it."""
    before = node.upstream[0] if node.upstream else None
    alone = isinstance(before, Pure) and not before.quiet and len(graph.targets[before]) == 1
    return isinstance(node, Pure) and alone


def _kind(node: Node) -> str:
    kinds = {Source: "source", Pure: "pure", Stateful: "state", Merge: "merge"}
    return kinds.get(type(node), "group")


def _lines(label: str) -> tuple[str, ...]:
    """A label, in lines that are not too long."""
    return tuple(textwrap.wrap(label, 30, break_long_words=False)) or ("",)


_FILLS = {"stream": "#dbe7f6", "source": "#dff0d8", "state": "#fdf0c4", "merge": "#eeeeee", "note": "#ffffff"}
_STROKES = {"stream": "#35507a", "source": "#4c7a35", "state": "#9a7a14", "merge": "#777777"}
_FILL, _STROKE = "#ffffff", "#999999"  # of what is neither

_MERMAID = {
    "stream": ('["', '"]'),
    "source": ('(["', '"])'),
    "pure": ('("', '")'),
    "state": ('[["', '"]]'),
    "merge": ('{{"', '"}}'),
    "group": ('>"', '"]'),
    "note": ('("', '")'),
}


def _mermaid(name: str, drawing: _Drawing) -> str:
    lines = ["---", f'title: "{name}"', "---", "flowchart LR"]
    for shape_name, shape in drawing.shapes.items():
        begin, end = _MERMAID[shape.kind]
        text = "<br>".join(map(_escaped, shape.lines))
        lines.append(f"    {shape_name}{begin}{text}{end}:::{shape.kind}")
    for start, stop, text, dashed in drawing.arrows:
        arrow = "-.->" if dashed else "-->"
        said = f'|"{_escaped(text)}"|' if text else ""
        lines.append(f"    {start} {arrow}{said} {stop}")
    for kind in dict.fromkeys(shape.kind for shape in drawing.shapes.values()):
        width = 2 if kind in {"stream", "state"} else 1
        lines.append(
            f"    classDef {kind} fill:{_FILLS.get(kind, _FILL)},stroke:{_STROKES.get(kind, _STROKE)},"
            f"stroke-width:{width}px,color:#111111"
        )
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Text in which Mermaid sees nothing but text."""
    return "".join(f"#{ord(letter)};" if letter in '#&"<>`' else letter for letter in text)


_DOT = {
    "stream": 'shape=box, style="filled,bold"',
    "source": "shape=oval, style=filled",
    "pure": 'shape=box, style="filled,rounded"',
    "state": "shape=box, style=filled, peripheries=2",
    "merge": "shape=hexagon, style=filled, margin=0.02",
    "group": 'shape=parallelogram, style=filled, margin="0,0.01"',
    "note": "shape=note, style=filled",
}


def _dot(name: str, drawing: _Drawing) -> str:
    lines = [
        f"digraph {_quoted(name)} {{",
        f"    graph [rankdir=LR, ranksep=0.35, nodesep=0.25, label={_quoted(name)}, labelloc=t, labeljust=l]",
        '    graph [fontname="Helvetica", fontsize=14]',
        '    node [fontname="Helvetica", fontsize=11, height=0.35]',
        '    edge [fontname="Helvetica", fontsize=9, color="#555555", arrowsize=0.7]',
    ]
    for shape_name, shape in drawing.shapes.items():
        colours = f'fillcolor="{_FILLS.get(shape.kind, _FILL)}", color="{_STROKES.get(shape.kind, _STROKE)}"'
        lines.append(f"    {shape_name} [label={_quoted_lines(shape.lines)}, {_DOT[shape.kind]}, {colours}]")
    for start, stop, text, dashed in drawing.arrows:
        style = [f"label={_quoted(text)}"] * bool(text) + ["style=dashed"] * dashed
        styles = f" [{', '.join(style)}]" if style else ""
        lines.append(f"    {start} -> {stop}{styles}")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted_lines(lines: Sequence[str]) -> str:
    return '"' + "\\n".join(_quoted(line)[1:-1] for line in lines) + '"'
