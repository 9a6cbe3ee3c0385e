"""From text to the tree: `query` parses, `translate`, `rules`, `sources` and `per_unit` allow what is listed."""
