"""What people of a ledger in PostgreSQL may try with SQL: against the server, each other, and everybody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge, Repeat, run_sealed
from hush.cli import main
from hush.errors import InvalidArgument
from hush.ledger import Ledger, LedgerBudget
from hush.ledger.accounts.earlier_charges import hashed_question
from hush.ledger.storage import schema
from hush.ledger.storage import store as store_module
from ledger.team import Team

pytestmark = pytest.mark.postgres

QUESTION = Charge(event=LaplaceEvent(20.0), purpose="a count", question="how many had the flu")


def owner_of_tables(team: Team) -> str:
    with team.engines["aud"].connect() as connection:
        name = connection.exec_driver_sql("SELECT tableowner FROM pg_tables WHERE tablename = 'hush_entries'")
        return str(name.scalar_one())


def refused(team: Team, who: str, *statements: str) -> None:
    """Check that the last statement is not allowed, whether the others were or not."""
    engine = team.engines[who].execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements[:-1]:
            with suppress(sa.exc.DBAPIError):
                connection.exec_driver_sql(statement)
        with pytest.raises(sa.exc.ProgrammingError, match="InsufficientPrivilege"):
            connection.exec_driver_sql(statements[-1])


@pytest.mark.parametrize("who", ["olga", "ann", "aud"])
def test_nobody_takes_over_the_server(team: Team, who: str) -> None:
    """The ledger was created by a superuser. Not even an owner of the ledger may do what its creator may."""
    takeover = "COPY (SELECT 1) TO PROGRAM 'true'"
    refused(team, who, "SET ROLE hush", takeover)
    refused(team, who, f"SET ROLE {owner_of_tables(team)}", takeover)
    refused(team, who, f"GRANT pg_execute_server_program TO {team.names[who]}", takeover)
    refused(team, who, "CREATE ROLE another LOGIN CREATEROLE")


def test_owners_cannot_plant_code_that_others_run(team: Team) -> None:
    """A trigger on the table runs with the rights of whoever charges: for instance, of a superuser."""
    schema = "CREATE SCHEMA trap; CREATE FUNCTION trap.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    with team.ledger.store.engine.connect() as connection:
        connection.exec_driver_sql(f"{schema}; GRANT USAGE ON SCHEMA trap TO PUBLIC")
    trigger = "CREATE TRIGGER a BEFORE INSERT ON public.hush_entries FOR EACH ROW EXECUTE FUNCTION trap.f()"
    refused(team, "olga", trigger)
    refused(team, "olga", "ALTER TABLE public.hush_entries DISABLE TRIGGER ALL")
    refused(team, "olga", "DROP FUNCTION public.hush_role() CASCADE")
    refused(team, "olga", "CREATE RULE r AS ON INSERT TO public.hush_entries DO ALSO NOTHING")


def test_the_role_that_owns_the_tables_cannot_log_in(team: Team) -> None:
    with team.engines["aud"].connect() as connection:
        role = sa.text("SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = :name")
        assert connection.execute(role, {"name": owner_of_tables(team)}).one() == (False, False)
        functions = (
            "SELECT proname, pg_get_userbyid(proowner), proconfig, prosecdef FROM pg_proc WHERE proname ~ '^hush_'"
        )
        found = connection.exec_driver_sql(functions).all()
    assert {owner for _, owner, _, _ in found} == {owner_of_tables(team)}
    assert [name for name, _, settings, _ in found if settings is None] == ["hush_field"]  # it is inlined
    assert all(settings == ["search_path=pg_catalog, pg_temp"] for _, _, settings, _ in found if settings)


def forge(team: Team, budget: LedgerBudget, **keys: str) -> None:
    """Let Ann write an answer that nobody has computed, by SQL."""
    details = '{"sealed": true, "delta": null}'
    cost = budget.cap.cost(QUESTION.event)
    costs = {"pure": cost.pure, "renyi": cost.renyi, "event": QUESTION.event.to_json(), **keys}
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(team.insert(kind="reserved", **costs).replace("'{}'", f"'{details}'"))
        number = connection.exec_driver_sql("SELECT id FROM hush_head").scalar_one()
        connection.exec_driver_sql(team.insert(pure=0, charge=number, answer="forged"))


@pytest.mark.parametrize("who", ["bob", "olga"])
def test_an_answer_that_an_analyst_has_made_up_is_not_given_to_others(team: Team, who: str) -> None:
    budget = team.open(who).budget("patients")
    question = hashed_question(budget, QUESTION)
    assert question is not None
    forge(team, budget, question=question)
    assert run_sealed(budget, QUESTION, lambda: "true") == "true"
    assert run_sealed(budget, QUESTION, lambda: "again") == "true"
    # Her own loss, until an owner answers the question: that answer is newer, and everybody gets it.
    hers = run_sealed(team.open("ann").budget("patients"), QUESTION, lambda: "again")
    assert hers == ("forged" if who == "bob" else "true")


# What json of PostgreSQL takes, and hush does not write. The last ones are nested deeper than Python follows.
DEEP = "[" * 3000 + "]" * 3000
STRANGE = {
    "no details": ("{}", QUESTION.event.to_json()),
    "details of another kind": ('{"sealed": 1, "data": [1], "delta": "x"}', QUESTION.event.to_json()),
    "deep details": (f'{{"sealed": {DEEP}}}', QUESTION.event.to_json()),
    "no event": ('{"sealed": true}', "{}"),
    "an event of no kind": ('{"sealed": true}', '{"format": "hush.event/1", "kind": "odd"}'),
    "an event without numbers": ('{"sealed": true}', '{"format": "hush.event/1", "kind": "laplace", "scale": "x"}'),
    "a deep event": ('{"sealed": true}', f'{{"kind": {DEEP}}}'),
}


def add_row(team: Team, budget: LedgerBudget, details: str, event: str) -> None:
    """Let Ann add a pending row of the question, by SQL."""
    question = hashed_question(budget, QUESTION)
    statement = team.insert(kind="reserved", pure=0, event=event, question=question)
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(statement.replace("'{}', 5", f"'{details}', 5"))


@pytest.mark.parametrize("name", STRANGE)
def test_a_row_that_hush_cannot_read_stops_nobody(
    name: str, team: Team, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One such row made every `pending`, and every repetition of the question, end in a traceback."""
    budget, olga = team.open("bob").budget("patients"), team.open("olga")
    add_row(team, budget, *STRANGE[name])
    assert run_sealed(budget, QUESTION, lambda: "true") == "true"
    (pending,) = olga.budget("patients").pending()
    for words in (["show"], ["show", "patients"], ["pending"], ["pending", "--json"]):
        assert main(["ledger", *words, "--db", team.address("olga")]) == 0
    assert not olga.verify().ok
    assert not olga.export(tmp_path / "page.html").ok
    assert main(["ledger", "pending", "--void", str(pending.id), "--db", team.address("olga")]) == 0
    assert not olga.budget("patients").pending()


@pytest.mark.parametrize(("details", "event"), [("[]", "{}"), ("5", "{}"), ('"x"', "{}"), ("{}", "[]"), ("{}", "null")])
def test_a_row_that_is_no_object_is_refused(details: str, event: str, team: Team) -> None:
    with pytest.raises(sa.exc.ProgrammingError, match="neither details nor event"):
        add_row(team, team.open("bob").budget("patients"), details, event)


def test_nobody_takes_a_part_of_another_plan(team: Team) -> None:
    """Bob could neither run that part, which he has paid for, nor void the plan."""
    budget = team.open("bob").budget("patients")
    plan = budget.plan([LaplaceEvent(20.0)], delta=1e-8, purpose="one count")
    for request in (f"plan {plan.id} part 0", "plan 999 part 0", "plan x part 0", "plan 1"):
        with (
            team.engines["ann"].begin() as connection,
            pytest.raises(sa.exc.ProgrammingError, match="no plan of yours"),
        ):
            connection.exec_driver_sql(team.insert(pure=0, request=request))
    plan.reserve(Charge(event=LaplaceEvent(20.0), purpose="a count")).commit()


def test_an_answer_about_other_data_that_an_analyst_has_made_up_refuses_nobody(team: Team) -> None:
    budget = team.open("bob").budget("patients")
    question = hashed_question(budget, QUESTION)
    assert question is not None
    forge(team, budget, question=question)  # about no data
    asked = replace(QUESTION, data="the table of March", repeat=Repeat.REFUSED_ON_OTHER_DATA)
    assert run_sealed(budget, asked, lambda: "true") == "true"
    with pytest.raises(InvalidArgument, match="other data"):  # her own question it does refuse
        run_sealed(team.open("ann").budget("patients"), asked, lambda: "true")


@pytest.mark.parametrize("holder", ["x", "", "a b c d", "m 99999999999999999999 2 d", "m\t\n 1 2 3", "m ../1 2 3"])
def test_a_lease_with_a_strange_holder_is_alive_and_can_be_voided(holder: str, team: Team) -> None:
    reserved = team.open("ann").budget("patients").reserve(QUESTION)
    lease = "INSERT INTO hush_leases (charge, holder, beat, states) VALUES (%s, %s, 0, 0)"
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(lease, (reserved.id, holder))
    (pending,) = team.open("olga").budget("patients").pending()
    assert (pending.held_for() is not None) == bool(holder)
    pending.void(force=True)


def test_no_analyst_locks_a_table(team: Team) -> None:
    """With the right to update a table comes that to lock it: all runs would wait, and `pending` for ever."""
    for table in ("ledger", "head", "entries", "datasets", "budgets", "people", "shares", "leases"):
        for mode in ("SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"):
            for who in ("ann", "aud"):
                with team.engines[who].begin() as connection, pytest.raises(sa.exc.ProgrammingError):
                    connection.exec_driver_sql(f"LOCK TABLE hush_{table} IN {mode} MODE NOWAIT")


def test_a_request_that_an_analyst_has_taken_is_refused_to_others(team: Team) -> None:
    budget = team.open("bob").budget("patients")
    forge(team, budget, request="count 1")
    asked = Charge(event=QUESTION.event, purpose="a count", request="count 1")
    with pytest.raises(InvalidArgument, match="Another person used this one"):
        budget.reserve(asked)


def test_answers_of_owners_are_given_to_analysts(team: Team) -> None:
    assert run_sealed(team.open("olga").budget("patients"), QUESTION, lambda: "true") == "true"
    budget = team.open("bob").budget("patients")
    before = budget.spent
    assert run_sealed(budget, QUESTION, lambda: "again") == "true"
    assert budget.spent == before


@pytest.mark.slow  # waits for ten seconds
def test_an_open_transaction_blocks_nobody_for_long(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended after ten seconds. Forty are given here, where everybody waited for 120 before, and were refused."""
    monkeypatch.setattr(store_module, "PATIENCE", 40.0)
    budgets, before = [team.open(who).budget("patients") for who in ("bob", "olga")], len(team.ledger.entries())
    with team.engines["ann"].connect() as connection:
        connection.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
        connection.exec_driver_sql(team.insert())
        with ThreadPoolExecutor() as threads:
            charges = [threads.submit(budget.charge, LaplaceEvent(20.0), purpose="a count") for budget in budgets]
        assert all(charge.result() for charge in charges)
        with pytest.raises(sa.exc.OperationalError):  # her session has ended
            connection.exec_driver_sql("SELECT 1")
        connection.invalidate()
    assert len(team.ledger.entries()) == before + 2


def test_a_transaction_that_has_just_begun_is_not_ended(team: Team) -> None:
    with team.engines["ann"].connect() as connection:
        connection.exec_driver_sql(team.insert())
        with team.engines["bob"].connect() as other:
            assert other.exec_driver_sql("SELECT hush_end_blockers()").scalar_one() == 0
        connection.commit()


def test_a_schema_with_the_name_of_a_person_is_not_looked_at(team: Team) -> None:
    """The path of a session begins with it. Analysts often may make schemas."""
    bob = team.names["bob"]
    with team.ledger.store.engine.connect() as connection:
        database = sa.make_url(team.url).database
        connection.exec_driver_sql(f"GRANT CREATE ON DATABASE {database} TO {team.names['ann']}")
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {bob}; GRANT USAGE ON SCHEMA {bob} TO PUBLIC")
        for table in ("ledger", "head", "entries", "datasets", "budgets", "people", "shares", "leases"):
            connection.exec_driver_sql(f"CREATE TABLE {bob}.hush_{table} AS SELECT * FROM public.hush_{table}")
            connection.exec_driver_sql(f"GRANT ALL ON {bob}.hush_{table} TO PUBLIC")
        connection.exec_driver_sql(
            f"CREATE FUNCTION {bob}.hush_role() RETURNS text LANGUAGE sql AS $$ SELECT 'owner' $$"
        )
        connection.exec_driver_sql(f"UPDATE {bob}.hush_entries SET author = 'forged'")
    ledger = team.open("bob")
    assert all(row.author != "forged" for row in ledger.entries())
    assert ledger.person.role == "analyst"


def test_a_schema_in_which_everybody_may_create_is_refused(team: Team) -> None:
    """As `public` was before PostgreSQL 15. Ann's operator fits better than the system's, and runs as whoever asks."""
    with team.ledger.store.engine.connect() as connection:
        connection.exec_driver_sql("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION public.trap(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'she has the rights of %%', current_user; END $$;"
            "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.trap)"
        )
    for address in (team.address("olga"), team.url):
        with pytest.raises(InvalidArgument, match="REVOKE CREATE ON SCHEMA public FROM PUBLIC"):
            Ledger(address)


def test_an_older_ledger_gets_a_role_of_its_own(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners of ledgers before version 3 were members of whoever had created them."""
    monkeypatch.setitem(schema.MIGRATIONS, 3, lambda _: None)  # the costs of version 4 are there; see test_schema.py
    olga = team.names["olga"]
    with team.ledger.store.engine.connect() as connection:
        connection.exec_driver_sql(
            f"GRANT hush TO {olga} WITH ADMIN OPTION; ALTER ROLE {olga} CREATEROLE; "
            "DROP FUNCTION hush_grant, hush_admit, hush_end_blockers; "
            "DROP POLICY hush_read ON hush_leases; DROP POLICY hush_take ON hush_leases; "
            "DROP POLICY hush_renew ON hush_leases; UPDATE hush_ledger SET version = 2"
        )
        old = owner_of_tables(team)
        connection.exec_driver_sql(f"REASSIGN OWNED BY {old} TO hush; DROP OWNED BY {old}; DROP ROLE {old}")
    with pytest.raises(PermissionError, match="Its creator must open it once"):
        team.open("ann")
    again = type(team.ledger)(team.url)
    again.close()
    assert owner_of_tables(team) != "hush"
    test_nobody_takes_over_the_server(team, "olga")
    team.open("olga").budget("patients").charge(LaplaceEvent(50.0), purpose="x")
    team.check_chain()
