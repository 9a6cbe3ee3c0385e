"""PostgreSQL enforces roles and rows by itself, whatever SQL is sent to it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from hush.accounting import LaplaceEvent
from hush.accounting.budget import Charge
from hush.errors import InvalidArgument
from hush.ledger import Role
from hush.ledger.storage.postgres import _WAIT
from ledger.team import Team

CHEATS = {
    "update a row": "UPDATE hush_entries SET pure = 0",
    "delete rows": "DELETE FROM hush_entries",
    "empty the ledger": "TRUNCATE hush_entries",
    "raise the cap": "UPDATE hush_budgets SET most_pure = most_pure * 2",
    "forget what was spent": "UPDATE hush_budgets SET pure = 0, renyi = 0",
    "move the chain's end": "UPDATE hush_head SET id = 0",
    "hold the chain's end": "SELECT * FROM hush_head FOR UPDATE",
    "raise a share": "UPDATE hush_shares SET most_pure = 9e17",
    "give oneself a share": "INSERT INTO hush_shares SELECT 'x', block, name, 0, 0, 0, 0, 1, 1, 1, 1 FROM hush_shares",
    "become an owner": "UPDATE hush_people SET role = 'owner'",
    "admit somebody": "INSERT INTO hush_people VALUES ('eve', 'owner', NULL)",
    "change the version": "UPDATE hush_ledger SET version = 99",
    "no triggers": "ALTER TABLE hush_entries DISABLE TRIGGER ALL",
    "drop a trigger": "DROP TRIGGER hush_append ON hush_entries",
    "no triggers, as a replica": "SET session_replication_role = replica",
    "another function": "CREATE OR REPLACE FUNCTION hush_role() RETURNS text LANGUAGE sql AS $$ SELECT 'owner' $$",
    "another path": "ALTER FUNCTION hush_append() SET search_path = pg_temp",
    "drop a function": "DROP FUNCTION hush_role() CASCADE",
    "be the owner": "SET ROLE hush",
    "be the owner's session": "SET SESSION AUTHORIZATION hush",
    "a trigger of one's own": "CREATE TRIGGER zz BEFORE INSERT ON hush_entries EXECUTE FUNCTION hush_only_added()",
    "a child table": "CREATE TEMP TABLE c () INHERITS (hush_entries)",
    "a rule": "CREATE RULE r AS ON INSERT TO hush_entries DO INSTEAD NOTHING",
}


@pytest.mark.postgres
@pytest.mark.parametrize("who", ["ann", "aud"])
def test_the_database_refuses_what_changes_anything_but_by_a_row(team: Team, who: str) -> None:
    before = team.state()
    for statement in CHEATS.values():
        with team.engines[who].connect() as connection, pytest.raises(sa.exc.DBAPIError):
            connection.execute(sa.text(statement))
    assert team.state() == before


OWNERS_CHEATS = {
    name: CHEATS[name] for name in ("raise the cap", "forget what was spent", "become an owner", "admit somebody")
} | {
    "make the superuser an analyst": "INSERT INTO hush_people (name, role) VALUES ('hush', 'analyst')",
    "forget a share": "UPDATE hush_shares SET pure = 0",
    "a block without a row": 'INSERT INTO hush_budgets SELECT (jsonb_populate_record(b, \'{"block": "x"}\')).* '
    "FROM hush_budgets AS b WHERE dataset = 'visits' AND block = 'a'",
    "retire without a row": "UPDATE hush_budgets SET retired = true WHERE block = 'a'",
    "begin again": "UPDATE hush_budgets SET retired = false WHERE block = 'b'",
}


@pytest.mark.postgres
def test_an_owner_changes_budgets_by_rows_only(team: Team) -> None:
    olga = team.open("olga")
    visits = olga.budget("visits")
    visits.retire("b")
    before = team.state()
    for name, statement in OWNERS_CHEATS.items():
        with team.engines["olga"].connect() as connection:
            refused = pytest.raises(sa.exc.DBAPIError, match="permission denied|no row says so")
            with refused as refusal:
                connection.exec_driver_sql(statement)
            assert refusal.value is not None, name
    assert team.state() == before
    visits.add_block("c")
    olga.budget("more", epsilon=1, unit="row")
    olga.budget("patients").share(team.names["ann"], percent=20)
    olga.admit(f"eve_{team.names['olga']}"[:40], Role.ANALYST)
    assert olga.verify().ok


@pytest.mark.postgres
def test_a_row_says_who_wrote_it_and_has_its_place_whatever_was_given(team: Team) -> None:
    with team.engines["ann"].begin() as connection:
        row = team.insert(gaussian=10**11)
        connection.exec_driver_sql(row)
        connection.exec_driver_sql(row + row.partition("VALUES")[2].join([",", ""]))
    rows = team.data.entries()[-3:]
    assert {row.author for row in rows} == {team.names["ann"]}
    assert team.data.spent == pytest.approx(0.3)
    team.check_chain()


@pytest.mark.postgres
def test_rows_that_cheat_are_refused(team: Team) -> None:
    ann = team.open("ann")
    hers = ann.budget("patients").reserve(Charge(event=LaplaceEvent(2.0), purpose="hers"))
    ann.close()
    bob = team.open("bob")
    his = bob.budget("patients").reserve(Charge(event=LaplaceEvent(2.0), purpose="his"))
    bob.close()
    cost = hers.row.cost
    before = team.state()
    for statement in (
        team.insert(pure=-1),
        team.insert(kind="voided", pure=0),
        team.insert(kind="voided", pure=-1),
        team.insert(kind="dataset"),
        team.insert(kind="share"),
        team.insert(kind="recomputed", pure=-1),
        team.insert(kind="person", pure=0),
        team.insert(kind="anything", pure=0),
        team.insert(pure=1_600_000_000_000),  # more than her share
        team.insert(dataset="visits", pure=1),  # of no block
        team.insert(dataset="visits", block="[]", pure=1),
        team.insert(dataset="visits", block='["a", "a"]', pure=1),
        team.insert(dataset="visits", block='["c"]', pure=1),
        team.insert(dataset="visits", block="[null]", pure=1),
        team.insert(dataset="visits", block='"a"', pure=1),
        team.insert(dataset="unknown", pure=1),
        team.insert(kind="voided", pure=-his.row.pure, renyi=-his.row.renyi, charge=his.id),
        team.insert(kind="voided", pure=-cost.pure - 1, renyi=-cost.renyi, charge=hers.id),
        team.insert(kind="committed", pure=1, charge=hers.id),
        team.insert(kind="reserved", pure=0, charge=hers.id),
        team.insert(kind="voided", pure=0, charge=1),
        team.insert(kind="voided", dataset="visits", block='["a"]', pure=-1, charge=hers.id),
    ):
        with team.engines["ann"].connect() as connection, pytest.raises(sa.exc.DBAPIError):
            connection.exec_driver_sql(statement)
    assert team.state() == before
    with team.engines["aud"].connect() as connection, pytest.raises(sa.exc.DBAPIError):
        connection.exec_driver_sql(team.insert(pure=1))


@pytest.mark.postgres
def test_a_refund_happens_once_also_under_on_conflict(team: Team) -> None:
    """An insert that is skipped by ON CONFLICT has run its triggers: they must not have given anything back."""
    ann = team.open("ann")
    data = ann.budget("patients")
    data.charge(LaplaceEvent(1.0), purpose="to be stolen back")
    hers = data.reserve(Charge(event=LaplaceEvent(4.0), purpose="hers"))
    ann.close()
    cost = hers.row.cost
    void = team.insert(kind="voided", pure=-cost.pure, renyi=-cost.renyi, charge=hers.id)
    twice = f"{void}, {void.partition('VALUES ')[2]}"
    for statement in (f"{twice} ON CONFLICT DO NOTHING", twice):
        with team.engines["ann"].connect() as connection, pytest.raises(sa.exc.IntegrityError):
            connection.exec_driver_sql(statement)
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(f"{void} ON CONFLICT DO NOTHING")
    assert team.data.spent == 1.0
    before = team.state()
    keyed = team.insert(pure=5, request="k")
    for again in (void, f"{keyed}, {keyed.partition('VALUES ')[2]}"):
        with team.engines["ann"].connect() as connection, pytest.raises(sa.exc.IntegrityError):
            connection.exec_driver_sql(f"{again} ON CONFLICT DO NOTHING")
    assert team.state() == before
    team.check_chain()


@pytest.mark.postgres
def test_what_a_session_puts_in_the_way_is_not_looked_at(team: Team) -> None:
    """Temporary tables come first in every search path that does not name them, also in functions of others."""
    with team.engines["ann"].begin() as connection:
        for table in ("hush_head", "hush_people", "hush_budgets", "hush_shares", "hush_datasets"):
            connection.exec_driver_sql(f"CREATE TEMP TABLE {table} AS SELECT * FROM public.{table}")
        connection.exec_driver_sql("UPDATE pg_temp.hush_people SET role = 'owner'")
        connection.exec_driver_sql("UPDATE pg_temp.hush_budgets SET most_pure = 9e17")
        connection.exec_driver_sql("SET search_path = pg_temp, public")
        connection.exec_driver_sql(team.insert(gaussian=10**11).replace("hush_entries", "public.hush_entries"))
        with pytest.raises(sa.exc.DBAPIError), connection.begin_nested():
            connection.exec_driver_sql(team.insert(kind="share").replace("hush_entries", "public.hush_entries"))
    assert team.data.spent == pytest.approx(0.1)
    team.check_chain()


@pytest.mark.postgres
def test_the_trigger_works_for_no_other_table(team: Team) -> None:
    before = team.state()
    trigger = "CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION hush_append()"
    with team.engines["ann"].connect() as connection:
        connection.exec_driver_sql("CREATE TEMP TABLE mine (LIKE hush_entries)")
        with pytest.raises(sa.exc.DBAPIError):
            connection.exec_driver_sql(trigger)
    with team.ledger.store.engine.connect() as connection:  # nor if whoever may call it makes one
        connection.exec_driver_sql("CREATE TEMP TABLE mine (LIKE hush_entries)")
        connection.exec_driver_sql(trigger)
        with pytest.raises(sa.exc.DBAPIError):
            connection.exec_driver_sql(team.insert().replace("hush_entries", "mine"))
        connection.exec_driver_sql("DROP TABLE mine")
    assert team.state() == before


@pytest.mark.postgres
def test_who_does_not_wait_for_the_disk_by_setting_still_does(team: Team) -> None:
    """A role's own setting does not change what hush waits for."""
    with team.engines["ann"].begin() as connection:
        connection.exec_driver_sql(f"ALTER ROLE {team.names['ann']} SET synchronous_commit = off")
    ann = team.open("ann")
    with ann.store.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "off"
        assert connection.exec_driver_sql(_WAIT).one()[0] == "on"
    ann.close()


@pytest.mark.postgres
def test_owners_admit_and_nobody_is_admitted_twice(team: Team) -> None:
    olga = team.open("olga")
    assert olga.person.role is Role.OWNER
    olga.budget("new", epsilon=1, unit="row").charge(LaplaceEvent(2.0), purpose="x")
    with pytest.raises(InvalidArgument, match="name"):
        olga.admit(team.names["ann"], Role.ANALYST)
    extra = f"eve_{sa.make_url(team.url).database}"
    olga.admit(extra, Role.ANALYST)
    team.names["eve"] = extra
    for row in olga.entries():
        assert not any(token in repr(row) for token in team.tokens.values())
    olga.close()
    team.check_chain()


@pytest.mark.postgres
def test_what_the_server_is_told_of_a_token_is_no_password(team: Team) -> None:
    told: list[str] = []
    sa.event.listen(
        team.ledger.store.engine, "before_cursor_execute", lambda *call: told.append(f"{call[2]} {call[3]}")
    )
    team.names["max"] = f"max_{sa.make_url(team.url).database}"
    token = team.ledger.admit(team.names["max"], Role.AUDITOR)
    assert any("SCRAM-SHA-256" in each for each in told)
    assert not any(token in each for each in told)


def test_people_hold_leases_of_their_own_reservations(team: Team) -> None:
    charge = Charge(event=LaplaceEvent(20.0), purpose="training", request="run 1", resumes=True)
    hers = team.open("ann").budget("patients").reserve(charge)
    hers.hold(1)
    lease = f"INSERT INTO hush_leases (charge, holder, beat, states) VALUES ({hers.id}, 'bob', 5, 9)"
    for attack in (
        lease,
        f"{lease} ON CONFLICT (charge) DO UPDATE SET holder = 'bob'",
        "DELETE FROM hush_leases",
    ):
        with team.engines["bob"].begin() as connection, pytest.raises(sa.exc.ProgrammingError):
            connection.execute(sa.text(attack))
    with team.engines["bob"].begin() as connection:  # hers are not among those that he can change, or lock
        assert connection.execute(sa.text("UPDATE hush_leases SET holder = ''")).rowcount == 0
        assert connection.execute(sa.text("SELECT * FROM hush_leases FOR UPDATE")).all() == []
    with team.engines["ann"].begin() as connection, pytest.raises(sa.exc.ProgrammingError):
        connection.execute(sa.text("UPDATE hush_leases SET states = 0"))
    with team.engines["ann"].begin() as connection:  # times are the server's
        connection.execute(sa.text("UPDATE hush_leases SET beat = 5"))
    (pending,) = team.open("aud").budget("patients").pending()
    seconds = pending.held_for()
    assert seconds is not None
    assert seconds < 120
    hers.release()
    continued = team.open("olga").budget("patients").reserve(charge)
    continued.hold(1)
    continued.commit()
    assert team.ledger.verify().ok
