"""Markup, numbers, axes and SVG: what pages are drawn with."""
