"""What pages are made of, for reports of other layers: escaped markup, tables, plots, and the page around them.

Plain text cannot become markup: only `Html` passes as it is, and every other string is escaped where it meets markup.
"""

from hush.report.drawing.markup import Html as Html
from hush.report.drawing.markup import bullets as bullets
from hush.report.drawing.markup import facts as facts
from hush.report.drawing.markup import figure as figure
from hush.report.drawing.markup import folded as folded
from hush.report.drawing.markup import join as join
from hush.report.drawing.markup import name as name
from hush.report.drawing.markup import table as table
from hush.report.drawing.markup import tag as tag
from hush.report.drawing.numbers import delta as written_delta
from hush.report.drawing.numbers import epsilon as written_epsilon
from hush.report.drawing.svg import Line as Line
from hush.report.drawing.svg import Point as Point
from hush.report.drawing.svg import lines as lines
from hush.report.sections.document import document as document
from hush.report.sections.document import tile as tile
from hush.report.sections.section import Section as Section

__all__ = [
    "Html",
    "Line",
    "Point",
    "Section",
    "bullets",
    "document",
    "facts",
    "figure",
    "folded",
    "join",
    "lines",
    "name",
    "table",
    "tag",
    "tile",
    "written_delta",
    "written_epsilon",
]
