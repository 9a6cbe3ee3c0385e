"""Markup, numbers, axes and SVG: the parts that pages are made of."""
