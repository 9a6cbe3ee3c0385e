"""Budgets: what they allow, what they refuse, and what they remember."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from hush import Guarantee, Relation, Unit
from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    PldAccountant,
    PoissonSampledEvent,
    ProjectedGaussianEvent,
    SelfComposedEvent,
)
from hush.accounting.budget import Charge
from hush.accounting.events import QualifiedEvent
from hush.errors import BudgetExceeded, HushError, InvalidArgument, Unsupported
from hush.ledger import Dataset, EntryKind, Ledger, OverBudget

Opened = Callable[..., Ledger]
FLU = "how many had the flu"


def patients(ledger: Ledger, **terms: object) -> Dataset:
    return ledger.dataset("patients", **{"epsilon": 3.0, "delta": 1e-6, "unit": "patient", **terms})


def test_charges_add_up_and_outlive_the_process(opened: Opened) -> None:
    data = patients(opened())
    for _ in range(10):
        data.charge(LaplaceEvent(10.0), purpose=FLU)
    assert data.spent == 1.0  # ten times 0.1, exactly
    again = opened().dataset("patients")
    assert again.spent == 1.0
    assert again.cap == data.cap
    assert [row.kind for row in again.entries()] == [EntryKind.DATASET, *[EntryKind.COMMITTED] * 10]


def test_many_small_charges_cost_less_than_their_sum(opened: Opened) -> None:
    data = patients(opened())
    for _ in range(36):
        data.charge(LaplaceEvent(10.0), purpose=FLU)
    assert data.spent < 3.0 < 36 * 0.1


def test_a_refusal_says_what_fits_and_charges_nothing(opened: Opened) -> None:
    data = patients(opened())
    data.charge(LaplaceEvent(1.0), purpose=FLU)
    with pytest.raises(OverBudget, match=r"asked for epsilon = 2.5, spent 1 .*left 2\..*largest that fits") as refused:
        data.charge(LaplaceEvent(0.4), purpose=FLU)
    assert isinstance(refused.value, BudgetExceeded)
    assert data.spent == 1.0
    largest = refused.value.largest_epsilon
    assert data.price(ApproximateDPEvent(largest)).fits
    assert not data.price(ApproximateDPEvent(largest * 1.02)).fits
    noise = refused.value.least_noise
    assert data.price(GaussianEvent(noise)).fits
    assert data.cap.fits(data.status()[0].cost + data.cost(GaussianEvent(noise)))
    assert not data.cap.fits(data.status()[0].cost + data.cost(GaussianEvent(noise * 0.98)))
    data.charge(ApproximateDPEvent(largest), purpose="all that is left")
    assert len(data.entries()) == 3


def test_a_price_costs_nothing(opened: Opened) -> None:
    data = patients(opened())
    price = data.price(LaplaceEvent(2.0))
    assert price.alone == pytest.approx(0.5, abs=1e-4)  # at the cap's delta, a little less
    assert (price.after, price.fits) == (0.5, True)
    assert data.spent == 0
    assert not data.price(LaplaceEvent(0.1)).fits


def test_a_reservation_counts_until_it_is_voided(opened: Opened) -> None:
    data = patients(opened())
    reserved = data.reserve(Charge(event=LaplaceEvent(0.5), purpose="training"))
    assert data.spent == 2.0
    with pytest.raises(OverBudget):
        data.reserve(Charge(event=LaplaceEvent(0.5), purpose="another"))
    (pending,) = opened().dataset("patients").pending()  # after a crash, another process sees it
    assert pending.id == reserved.id
    pending.void()
    assert data.spent == 0
    assert not data.pending()
    for settle in (reserved.void, reserved.commit):
        with pytest.raises(InvalidArgument, match="voided before"):
            settle()


def test_only_the_steps_taken_are_committed(opened: Opened) -> None:
    data = patients(opened())
    step = PoissonSampledEvent(GaussianEvent(1.0), 0.01)
    reserved = data.reserve(Charge(event=SelfComposedEvent(step, 1000), purpose="training"))
    whole = data.spent
    reserved.commit(SelfComposedEvent(step, 10))
    assert 0 < data.spent < whole
    assert data.status()[0].cost == data.cost(SelfComposedEvent(step, 10))
    other = data.reserve(Charge(event=SelfComposedEvent(step, 10), purpose="training"))
    with pytest.raises(InvalidArgument, match="part of what was reserved"):
        other.commit(SelfComposedEvent(step, 11))


def test_the_same_question_is_answered_once(opened: Opened) -> None:
    data = patients(opened())
    asked = Charge(event=LaplaceEvent(2.0), purpose=FLU, question="flu", sealed=True)
    assert data.reserve(asked).commit(answer="41.7") == "41.7"
    again = opened().dataset("patients").reserve(asked)
    assert again.answer == "41.7"
    assert data.spent == 0.5
    with pytest.raises(InvalidArgument):
        again.commit(answer="another")


def test_two_who_ask_the_same_at_once_get_one_answer(opened: Opened) -> None:
    data = patients(opened())
    asked = Charge(event=LaplaceEvent(2.0), purpose=FLU, question="flu", sealed=True)
    first, second = data.reserve(asked), opened().dataset("patients").reserve(asked)
    assert first.id == second.id
    assert first.commit(answer="41.7") == "41.7"
    assert second.commit(answer="39.2") == "41.7"  # its own is forgotten
    assert data.spent == 0.5


def test_a_sealed_charge_goes_on_after_a_crash_and_others_do_not(opened: Opened) -> None:
    data = patients(opened())
    sealed = Charge(event=LaplaceEvent(2.0), purpose=FLU, question="flu", sealed=True)
    assert data.reserve(sealed).id == data.reserve(sealed).id
    seen = Charge(event=LaplaceEvent(2.0), purpose="training", request="a run")
    data.reserve(seen)
    with pytest.raises(InvalidArgument, match="pending"):
        data.reserve(seen)
    assert data.spent == 1.0


def test_a_request_is_charged_once(opened: Opened) -> None:
    data = patients(opened())
    first = data.charge(LaplaceEvent(2.0), purpose=FLU, request="key 1")
    assert data.charge(LaplaceEvent(2.0), purpose=FLU, request="key 1").id == first.id
    assert data.spent == 0.5
    with pytest.raises(InvalidArgument, match="used for another"):
        data.charge(LaplaceEvent(1.0), purpose=FLU, request="key 1")
    run = data.for_run("run 7")
    begun = run.reserve(Charge(event=LaplaceEvent(4.0), purpose="training"))
    assert not begun.resumed
    gone_on = run.reserve(Charge(event=LaplaceEvent(4.0), purpose="training"))
    assert gone_on.resumed
    assert gone_on.id == begun.id
    gone_on.commit()
    with pytest.raises(InvalidArgument, match="committed"):
        run.reserve(Charge(event=LaplaceEvent(4.0), purpose="training"))


def test_units_and_relations_are_not_mixed(opened: Opened) -> None:
    ledger = opened()
    for unit, own in (
        ("row", Unit.example()),
        ("patient", Unit.user()),
        ("patient-month", Unit.user_calendar("month")),
    ):
        data = ledger.dataset(f"by {unit}", epsilon=3, delta=1e-6, unit=unit)
        assert data.cap.unit == own
        for other in (Unit.example(), Unit.user(), Unit.user_calendar("month"), Unit.user_calendar("week")):
            event = QualifiedEvent(LaplaceEvent(10.0), "add-or-remove", str(other))
            if other == own:
                data.charge(event, purpose=FLU)
            else:
                with pytest.raises(Unsupported, match="stated under"):
                    data.charge(event, purpose=FLU)
        with pytest.raises(Unsupported, match="stated under"):
            data.charge(QualifiedEvent(LaplaceEvent(10.0), "replace", str(own)), purpose=FLU)


def test_terms_are_fixed_for_good(opened: Opened) -> None:
    ledger = opened()
    data = patients(ledger, fingerprint="hospital 7, 2026")
    assert patients(ledger).cap == data.cap
    for term, value in {
        "epsilon": 4.0,
        "delta": 1e-5,
        "unit": "row",
        "relation": Relation.REPLACE,
        "order": 5.0,
        "claims_delta": 1e-8,
        "fingerprint": "hospital 8",
    }.items():
        with pytest.raises(InvalidArgument, match=f"^{term}="):
            patients(ledger, **{term: value})
    with pytest.raises(InvalidArgument, match="fingerprint"):
        ledger.dataset("the same under another name", epsilon=3, unit="row", fingerprint="hospital 7, 2026")
    with pytest.raises(InvalidArgument, match="To create one"):
        ledger.dataset("unknown")


def test_a_file_is_its_own_fingerprint(opened: Opened, tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "people.csv"
    path.write_text("a,b\n1,2\n")
    ledger = opened()
    ledger.dataset("one", epsilon=1, unit="row", fingerprint=path)
    copied = path.rename(path.with_name("others.csv"))
    with pytest.raises(InvalidArgument, match="fingerprint"):
        ledger.dataset("two", epsilon=1, unit="row", fingerprint=copied)


def test_claims_have_a_delta_of_their_own(opened: Opened) -> None:
    data = patients(opened(), claims_delta=3e-7)
    claim = ApproximateDPEvent(0.1, 1e-7)
    for _ in range(3):
        data.charge(claim, purpose=FLU)
    with pytest.raises(OverBudget):
        data.charge(claim, purpose=FLU)
    data.charge(ApproximateDPEvent(0.1), purpose=FLU)


def test_what_has_no_divergence_is_charged_as_a_claim(opened: Opened) -> None:
    data = patients(opened(), claims_delta=9e-7)
    event = ProjectedGaussianEvent(30.0, 50)
    data.reserve(Charge(event=event, purpose="training", delta=5e-7)).commit()
    claim = ApproximateDPEvent(PldAccountant().compose(event).epsilon(5e-7), 5e-7)
    assert data.status()[0].cost == data.cost(claim)


def test_a_run_that_no_order_suits_is_charged_as_a_claim(opened: Opened) -> None:
    """At the order of the filter its divergence explodes; reserved whole, its loss distribution is what counts."""
    data = patients(opened(), order=12.0)
    run = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 1000)
    assert data.cost(run).renyi > data.cap.limit.renyi
    reserved = data.reserve(Charge(event=run, purpose="training"))
    assert PldAccountant().compose(run).epsilon(1e-6) < data.spent < 2.5
    spent = data.spent
    reserved.commit(SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.01), 10))
    assert data.spent == spent  # a claim is about all of it


def test_without_delta_only_epsilons_add_up(opened: Opened) -> None:
    data = opened().dataset("pure", epsilon=1, unit="row")
    data.charge(LaplaceEvent(2.0), purpose=FLU)
    with pytest.raises(Unsupported, match="no delta to spare"):
        data.charge(GaussianEvent(100.0), purpose=FLU)
    data.charge(LaplaceEvent(2.0), purpose=FLU)
    assert (data.spent, data.left) == (1.0, 0.0)
    with pytest.raises(OverBudget, match="Nothing fits any more"):
        data.charge(LaplaceEvent(1e5), purpose=FLU)


def test_blocks_have_budgets_of_their_own_all_or_nothing(opened: Opened) -> None:
    data = opened().dataset("visits", epsilon=1, delta=1e-6, unit="patient-month", blocks=["2026-09", "2026-10"])
    data.at("2026-09").charge(LaplaceEvent(1.25), purpose="September")
    data.at("2026-10").charge(LaplaceEvent(2.0), purpose="October")
    assert {status.block: status.epsilon for status in data.status()} == {"2026-09": 0.8, "2026-10": 0.5}
    with pytest.raises(OverBudget):
        data.charge(LaplaceEvent(2.5), purpose="both: September has not enough, October is not charged either")
    assert {status.block: status.epsilon for status in data.status()} == {"2026-09": 0.8, "2026-10": 0.5}
    data.charge(LaplaceEvent(10.0), purpose="both")
    assert [round(status.epsilon, 9) for status in data.status()] == [0.9, 0.6]
    assert "each unit's rows are all in one block" in data.guarantee().assumptions
    with pytest.raises(InvalidArgument, match="a block of the data set"):
        data.at("2026-11")


def test_blocks_come_and_go(opened: Opened) -> None:
    data = opened().dataset("visits", epsilon=1, delta=1e-6, unit="patient-month", blocks=["2026-09"])
    data.at("2026-09").charge(LaplaceEvent(1.0), purpose="all of it")
    data.add_block("2026-10")
    with pytest.raises(InvalidArgument, match="no block of the data set has"):
        data.add_block("2026-10")
    assert data.retire_spent(least_epsilon=0.01) == ["2026-09"]
    assert data.price(LaplaceEvent(2.0)).fits  # of what is not retired
    assert not data.at("2026-09").price(LaplaceEvent(1e4)).fits
    data.charge(LaplaceEvent(2.0), purpose="what is not retired")
    assert {status.block: (status.epsilon, status.retired) for status in data.status()} == {
        "2026-09": (1.0, True),
        "2026-10": (0.5, False),
    }
    with pytest.raises(InvalidArgument, match="not retired"):
        data.at("2026-09").charge(LaplaceEvent(1e4), purpose="too late")
    data.add_block("2026-08", expires=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(InvalidArgument, match="not expired|has not expired"):
        data.at("2026-08").charge(LaplaceEvent(1e4), purpose="too late")


def test_blocks_need_a_relation_under_which_nobody_moves(opened: Opened) -> None:
    with pytest.raises(Unsupported, match="replace"):
        opened().dataset("x", epsilon=1, unit="row", relation=Relation.REPLACE, blocks=["a", "b"])
    data = opened().dataset("y", epsilon=1, unit="row")
    with pytest.raises(InvalidArgument):
        data.add_block("a")


def test_a_plan_reserved_whole_costs_what_its_loss_distribution_says(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    events = [LaplaceEvent(10.0)] * 20 + [GaussianEvent(30.0)] * 3
    plan = data.plan(events, delta=1e-6, purpose="the quarterly report")
    exact = PldAccountant().compose(ComposedEvent(tuple(events))).epsilon(1e-6)
    assert data.spent == pytest.approx(exact, abs=1e-6)
    for _ in range(3):
        plan.reserve(Charge(event=GaussianEvent(30.0), purpose="a table")).commit()
    with pytest.raises(InvalidArgument, match="part of the plan"):
        plan.reserve(Charge(event=GaussianEvent(30.0), purpose="one more"))
    with pytest.raises(InvalidArgument, match="part of the plan"):
        plan.reserve(Charge(event=GaussianEvent(31.0), purpose="another"))
    plan.close()
    assert data.spent == pytest.approx(exact, abs=1e-6)  # what was not run is not given back
    with pytest.raises(HushError):
        plan.reserve(Charge(event=LaplaceEvent(10.0), purpose="after the end"))


def test_a_plan_of_which_something_was_run_is_not_voided(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    plan = data.plan([LaplaceEvent(1.0)] * 2, delta=1e-6, purpose="the quarterly report")
    plan.reserve(Charge(event=LaplaceEvent(1.0), purpose="a part")).commit()
    (pending,) = data.pending()
    with pytest.raises(InvalidArgument, match="nothing was run"):
        pending.void()
    with pytest.raises(HushError) if data.store.url.get_backend_name() == "postgresql" else nullcontext():
        pending._settle(EntryKind.VOIDED, -pending.row.cost, None, None)  # PostgreSQL refuses by itself


def test_parts_of_a_plan_are_from_the_blocks_that_it_has_paid_for(opened: Opened) -> None:
    data = opened().dataset("v", epsilon=3, delta=1e-6, claims_delta=1e-6, unit="patient-month", blocks=["a"])
    plan = data.plan([LaplaceEvent(1.0)], delta=1e-6, purpose="all there is")
    data.add_block("b")
    plan.reserve(Charge(event=LaplaceEvent(1.0), purpose="a part")).commit()
    assert [row.block for row in data.entries() if row.kind == EntryKind.RESERVED] == ['["a"]'] * 2


def test_a_plan_of_which_nothing_was_run_is_given_back(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    data.plan([LaplaceEvent(1.0)], delta=1e-6, purpose="the quarterly report").close()
    assert data.spent == 0


def test_the_guarantee_is_the_cap(opened: Opened) -> None:
    claim = patients(opened()).guarantee()
    assert isinstance(claim, Guarantee)
    assert (claim.epsilon, claim.delta, claim.unit) == (3.0, 1e-6, Unit.user())


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://a@b/c", "no url", "sqlite:////no/such/folder/x.db"]
)
def test_bad_places_are_refused(url: str) -> None:
    with pytest.raises(HushError):
        Ledger(url)


def test_no_password_is_shown() -> None:
    with pytest.raises(HushError) as refused:
        Ledger("postgresql://somebody:hunter2@127.0.0.1:1/nowhere")
    assert "hunter2" not in str(refused.value)


# What an attacker tried


def test_a_delta_on_a_sample_is_not_forgotten(opened: Opened) -> None:
    hidden = PoissonSampledEvent(ApproximateDPEvent(0.01, 0.99), 0.99)
    for terms in ({"delta": 0.0}, {"delta": 1e-6, "claims_delta": 1e-6}):
        data = opened().dataset(f"{terms}", epsilon=1, unit="row", **terms)
        for event in (hidden, SelfComposedEvent(hidden, 2), ParallelByIndexEvent((hidden, LaplaceEvent(9.0)))):
            with pytest.raises(HushError):
                data.charge(event, purpose="x")
        with pytest.raises(HushError):
            data.charge(SelfComposedEvent(ApproximateDPEvent(1e-6, 0.5), 10**5), purpose="x")
        assert data.spent == 0


def test_a_key_that_was_voided_pays_for_nothing(opened: Opened) -> None:
    data = patients(opened())
    data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", request="k")).void()
    with pytest.raises(InvalidArgument, match="a new one"):
        data.charge(LaplaceEvent(1.0), purpose="x", request="k")
    for request in ("plan 2 part 0", "plan "):
        with pytest.raises(InvalidArgument, match="begin with"):
            data.charge(LaplaceEvent(1.0), purpose="x", request=request)


def test_a_key_is_for_its_own_blocks(opened: Opened) -> None:
    data = opened().dataset("v", epsilon=3, delta=1e-6, unit="patient-month", blocks=["a", "b"])
    data.at("a").charge(LaplaceEvent(1.0), purpose="x", request="k")
    with pytest.raises(InvalidArgument, match="used for another"):
        data.at("b").charge(LaplaceEvent(1.0), purpose="x", request="k")
    data.at("a").for_run("r").reserve(Charge(event=LaplaceEvent(2.0), purpose="x"))
    with pytest.raises(InvalidArgument, match="used for another"):
        data.at("b").for_run("r").reserve(Charge(event=LaplaceEvent(2.0), purpose="x"))


def test_a_question_about_more_blocks_is_another_one(opened: Opened) -> None:
    data = opened().dataset("v", epsilon=3, delta=1e-6, unit="patient-month", blocks=["a"])
    asked = Charge(event=LaplaceEvent(1.0), purpose="x", question="q", sealed=True)
    data.reserve(asked)
    data.add_block("b")
    data.reserve(asked)
    assert [status.epsilon for status in data.status()] == [2.0, 1.0]


def test_what_looks_at_other_blocks_than_it_pays_for_is_refused(opened: Opened) -> None:
    data = opened().dataset("v", epsilon=3, delta=1e-6, unit="patient-month", blocks=["a", "b"])
    for parts in ((), ("a",), ("b",)):
        with pytest.raises(InvalidArgument, match="^budget="):
            data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", parts=parts))
    data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", parts=("b", "a"))).commit()


def test_periods_that_contain_each_other_are_no_blocks(opened: Opened) -> None:
    ledger = opened()
    with pytest.raises(InvalidArgument, match="none contains another"):
        ledger.dataset("v", epsilon=1, unit="patient-day", blocks=["2026", "2026-11"])
    data = ledger.dataset("w", epsilon=1, unit="patient-day", blocks=["2026-11"])
    for name in ("2026", "2026-11-03"):
        with pytest.raises(InvalidArgument, match="none contains another"):
            data.add_block(name)


def test_groups_of_users_are_no_unit_of_a_budget(opened: Opened) -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        opened().dataset("v", epsilon=1, unit=Unit.user().group(3))


def test_the_same_words_about_another_event_have_no_answer(opened: Opened) -> None:
    data = patients(opened())
    data.reserve(Charge(event=ApproximateDPEvent(1e-6), purpose="x", question="q", sealed=True)).commit(answer="forged")
    real = data.reserve(Charge(event=LaplaceEvent(1.0), purpose="x", question="q", sealed=True))
    assert real.answer is None


def test_a_closed_plan_takes_no_more_parts(opened: Opened) -> None:
    data = patients(opened(), claims_delta=1e-6)
    plan = data.plan([LaplaceEvent(1.0)], delta=1e-6, purpose="x")
    plan.close()  # nothing was run: given back
    with pytest.raises(InvalidArgument, match="closed"):
        plan.reserve(Charge(event=LaplaceEvent(1.0), purpose="x"))
    assert data.spent == 0
