"""Take the names off a table, make it k-anonymous, and lose the secrets all the same.

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
    """Return a k-anonymous table, and where it puts the people of the register."""
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

    found = linkage_attack(people, register, KNOWN)
    print(f"1. {options.people} patients, without names. Postcode, birthday and sex are in a register of voters, too:")
    print(f"   {found.fraction:.1%} of the patients have their names back.\n")

    table, voters = published(people, options.k, KNOWN)
    found = linkage_attack(table, voters, ["group"])
    print(
        f"2. Published in groups of {smallest_group(table, ['group'])} and more, the table names {found.fraction:.1%}."
    )
    print("   That is what k-anonymity promises.\n")

    inferred = inference_attack(table, voters, ["group"], "diagnosis")
    print(f"3. But {inferred.fraction:.1%} of the patients are in a group with one diagnosis, which is theirs.")
    healthy = {person: HARMLESS for person in range(options.people) if truth[person] not in HARMLESS}
    informed = inference_attack(table, voters, ["group"], "diagnosis", impossible=healthy)
    told = f"{informed.fraction:.1%} of the diagnoses"
    print(f"   Who knows who had neither {' nor '.join(HARMLESS)} learns {told}.\n")

    second, again = published(people, options.k, KNOWN[::-1])
    both = inferred.together_with(inference_attack(second, again, ["group"], "diagnosis"))
    right = sum(truth[person] == value for person, value in both.known.items())
    print("4. A second table of the same patients, in groups of the same size, but other ones: both together")
    print(f"   give {both.fraction:.1%} of the diagnoses ({right} of {len(both.known)} of them right).\n")
    print("Each table kept its promise, which depends on what is known beside it. A guarantee of hush does not.")


if __name__ == "__main__":
    main()
