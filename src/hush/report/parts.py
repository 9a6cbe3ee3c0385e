"""What pages are made of, for reports of other layers: escaped markup, tables, plots, and the page around them.

Plain text cannot become markup: only `Html` passes as it is, and every other string is escaped where it meets markup.
"""

from hush.report._document import document as document
from hush.report._document import tile as tile
from hush.report._markup import Html as Html
from hush.report._markup import bullets as bullets
from hush.report._markup import facts as facts
from hush.report._markup import figure as figure
from hush.report._markup import folded as folded
from hush.report._markup import join as join
from hush.report._markup import name as name
from hush.report._markup import table as table
from hush.report._markup import tag as tag
from hush.report._numbers import delta as written_delta
from hush.report._numbers import epsilon as written_epsilon
from hush.report._section import Section as Section
from hush.report._svg import Line as Line
from hush.report._svg import Point as Point
from hush.report._svg import lines as lines

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
