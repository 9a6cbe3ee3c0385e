"""What other packages publish as expected values in their tests, and how hush says the same.

The facts are in ``tests/accounting/peers_published``: mechanism, parameters, value, tolerance. Nothing is theirs but
the numbers. In reading order:

- `facts`: reads them. `verdicts`: what a comparison can find.
- `laws`: the distributions behind an outcome x, which some facts are about. hush knows losses only.
- `loss_curve`: masses of losses, from hush's profiles.
- `profiles`: facts about one mechanism. `accounts`: facts about epsilons of compositions.
"""
