"""Building blocks of pages: escaped markup, tables, plots, and the document around them.

They are shared inside hush, and not public.

Plain text cannot become markup. Only `Html` is inserted as it is; every other string is escaped.
"""

from hush.report.drawing.axes import WIDTH as WIDTH
from hush.report.drawing.axes import Scale as Scale
from hush.report.drawing.axes import drawing as drawing
from hush.report.drawing.axes import grid_x as grid_x
from hush.report.drawing.axes import grid_y as grid_y
from hush.report.drawing.markup import Html as Html
from hush.report.drawing.markup import bullets as bullets
from hush.report.drawing.markup import facts as facts
from hush.report.drawing.markup import figure as figure
from hush.report.drawing.markup import folded as folded
from hush.report.drawing.markup import join as join
from hush.report.drawing.markup import name as name
from hush.report.drawing.markup import table as table
from hush.report.drawing.markup import tag as tag
from hush.report.drawing.numbers import delta, epsilon
from hush.report.drawing.svg import Line as Line
from hush.report.drawing.svg import Point as Point
from hush.report.drawing.svg import lines as lines
from hush.report.drawing.svg_document import svg_document as svg_document
from hush.report.sections.document import document as document
from hush.report.sections.document import tile as tile
from hush.report.sections.section import Section as Section

written_delta, written_epsilon = delta, epsilon
