"""The report on a training run: one self-contained HTML page.

- `render`: turn a run's record (a plain mapping) into the page.
- `with_audit`: add the result of an audit to a page.
- `trade_off_plot`: draw what attacks can reach under a guarantee.
- `publishable`: remove everything that is not private from a page.

A page loads nothing, has no script, and can be read offline, on a phone, on paper and by a screen reader. Figures that
the guarantee does not cover stand between marks, in dashed frames; `publishable` removes them. Anything that the record
declares neither private nor public counts as not private.

Sub-packages: `drawing` (markup, numbers, axes, SVG), `sections` (one function from the record to each section).
``page_parts`` shares the building blocks with the pages of other packages of hush. Only the standard library is used.
"""

from hush.report.drawing.trade_off_plot import trade_off_plot as trade_off_plot
from hush.report.page import render as render
from hush.report.sections.section import publishable as publishable

# isort: split
# Shared inside hush, not public.
from hush.report.sections.attack import with_audit as with_audit

__all__ = ["publishable", "render", "trade_off_plot"]
