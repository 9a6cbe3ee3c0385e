"""Rules for operations in which a parameter, or a function of parameters alone, meets the batch.

A rule (`registry`) takes the mode, the operation and its arguments, and returns the result with taps for the gradients
of the parameters. There are four ways:

products      linear layers, convolutions and tables, by the same functions as the modules' rules
written out   norms, recurrent cells and other products, in terms of the above and of products and sums
copies        whatever is broadcast: each example gets a copy of the parameter, of which none is stored
one example   any other operation, under ``vmap`` with a copy of the parameter for each example: that one, and no more

Shapes: B examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hush.training.operations.names import is_pointwise
from hush.training.per_example.watching import products, written_out
from hush.training.per_example.watching.copies import broadcast
from hush.training.per_example.watching.one_example import one_example
from hush.training.per_example.watching.registry import RULES

if TYPE_CHECKING:
    from hush.training.per_example.watching.mode import OperationMode


RULE_MODULES = (products, written_out)  # importing them registers their rules

_BROADCAST = ("expand_as", "scaled_dot_product_attention")


def meet(mode: OperationMode, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Run an operation in which a parameter meets the batch."""
    rule = RULES.get(name)
    if rule is not None:
        return rule(mode, func, *args, **kwargs)
    if mode.decide(lambda: is_pointwise(name) or name in _BROADCAST):
        return broadcast(mode, func, name, args, kwargs)
    return one_example(mode, func, name, args, kwargs)
