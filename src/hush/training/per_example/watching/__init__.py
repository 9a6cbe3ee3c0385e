"""Watching: rules on operations, for parameters that no module's rule covers.

`mode`         sees every operation of a private forward pass
`modules`      where modules with rules take and return examples
`plan`         what a pass has decided, for later passes
`meeting`      finds the rule for an operation in which a parameter meets the batch
`registry`     the rules by name
`products`     linear layers, convolutions, tables
`copies`       whatever is broadcast
`written_out`  norms, recurrent cells
`one_example`  anything else, under ``vmap``
`sources`      functions of parameters alone, such as a transposed or normalised weight
`led_back`     their gradients, led back to the parameters
`arguments`    the tensors among the arguments of an operation
`checkpoints`  activation checkpoints, which are switched off
"""
