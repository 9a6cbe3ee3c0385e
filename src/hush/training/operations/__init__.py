"""Operations: how a batch of examples travels through any program of torch, one operation at a time.

`layouts`    where a tensor holds the examples: a dimension, and the order within it
`names`      names of operations, whichever way they are spelled, and their kinds
`following`  from the layouts of an operation's arguments to those of its results
`lookups`    the same for indexing
`recipes`    functions of parameters alone, through which gradients are led back

Nothing here knows of gradients per example or of modules: `per_example.watching` watches a forward pass with it.
"""
