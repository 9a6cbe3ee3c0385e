"""Ask a statistics service many questions and work out its secrets from the answers; then ask hush the same questions.

A service answers "how many of these people have the disease?" for any group of people. Exact answers, small errors, a
ban on small groups: all of them reveal nearly every secret. Noise that is accounted for does not.

    python examples/reconstruction.py [--people 128]
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from hush.lab.reconstruction import (
    difference_attack,
    linear_answers,
    reconstruct_by_linear_program,
    subset_queries,
)
from hush.mechanisms import Laplace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=128)
    count = parser.parse_args().people
    rng = np.random.default_rng(1)
    secret = rng.random(count) < 0.5
    print(f"{count} people, one secret bit each. Guessing finds 50 % of them.\n")

    def exact(group: np.ndarray) -> float:
        if group.sum() < count // 4:
            raise ValueError("too few people")
        return float(secret[group].sum())

    fraction = difference_attack(exact, count).fraction_correct(secret)
    print(
        f"Exact answers, groups below {count // 4} people refused. Two sums that differ in one person: {fraction:.0%}."
    )

    queries = subset_queries(count, 4 * count, rng)
    print(f"\n{4 * count} sums over random groups, with an error of c times sqrt(people), and a linear program:")
    for c in (0.0, 0.25, 0.5, 1.0, 2.0):
        noise = rng.laplace(scale=c * math.sqrt(count / 2), size=len(queries)) if c else 0.0
        fraction = reconstruct_by_linear_program(queries, queries @ secret + noise).fraction_correct(secret)
        print(f"  c = {c:<4g}  standard deviation {c * math.sqrt(count):5.1f}   {fraction:.0%} of the secrets")

    print("\nThe same sums from hush. Epsilon is for all of them together:")
    for epsilon in (1_000.0, 100.0, 10.0, 1.0):
        mechanism = Laplace(epsilon=epsilon / len(queries), sensitivity=1.0)
        answers = linear_answers(queries, lambda group, noisy=mechanism: noisy.release(secret[group].sum()).value)
        fraction = reconstruct_by_linear_program(queries, answers).fraction_correct(secret)
        limit = 1 / (1 + math.exp(-epsilon))
        print(f"  epsilon = {epsilon:<5g}  {fraction:.0%} of the secrets; no attack on one finds more than {limit:.0%}")


if __name__ == "__main__":
    main()
