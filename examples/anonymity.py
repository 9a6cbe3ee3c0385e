"""Remove the names from a table, make it k-anonymous, and still reveal its secrets.

All people are invented. Each step is an attack that works on real tables.

    python examples/anonymity.py [--people 5000] [--k 5]
"""

from __future__ import annotations

import argparse

import numpy as np

from hush.lab.anonymity import Partition, inference_attack, linkage_attack, smallest_group, synthetic_people

KNOWN = ["postcode", "birthday", "sex"]  # what a register with names has, too
HARMLESS = ["influenza", "fracture"]


def published(people: dict, k: int, order: list[str]) -> tuple[dict, dict]:
    """Return a k-anonymous table, and the groups of the people in the register."""
    groups = Partition.into_groups_of(k, people, order).groups(people)
    return {"group": groups, "diagnosis": people["diagnosis"]}, {"group": groups}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--k", type=int, default=5)
    options = parser.parse_args()
    people = synthetic_people(options.people, np.random.default_rng(1))
    truth = people["diagnosis"]
    register = {name: people[name] for name in KNOWN}

    linked = linkage_attack(people, register, KNOWN)
    print(f"1. {options.people} patients, without names. A register of voters has postcode, birthday and sex, too:")
    print(f"   {linked.fraction:.1%} of the patients are identified.\n")

    table, voters = published(people, options.k, KNOWN)
    linked = linkage_attack(table, voters, ["group"])
    print(f"2. In groups of {smallest_group(table, ['group'])} or more, the table identifies {linked.fraction:.1%}.")
    print("   That is what k-anonymity promises.\n")

    inferred = inference_attack(table, voters, ["group"], "diagnosis")
    print(
        f"3. But {inferred.fraction:.1%} of the patients are in a group with a single diagnosis, which must be theirs."
    )
    healthy = {person: HARMLESS for person in range(options.people) if truth[person] not in HARMLESS}
    informed = inference_attack(table, voters, ["group"], "diagnosis", impossible=healthy)
    learned = f"{informed.fraction:.1%} of the diagnoses"
    print(f"   Someone who knows who had neither {' nor '.join(HARMLESS)} learns {learned}.\n")

    second, again = published(people, options.k, KNOWN[::-1])
    both = inferred.together_with(inference_attack(second, again, ["group"], "diagnosis"))
    right = sum(truth[person] == value for person, value in both.known.items())
    print("4. A second table of the same patients, in other groups of the same size: both together")
    print(f"   reveal {both.fraction:.1%} of the diagnoses ({right} of {len(both.known)} of them right).\n")
    print("Each table kept its promise, but that promise depends on what else is known. A guarantee of hush does not.")


if __name__ == "__main__":
    main()
