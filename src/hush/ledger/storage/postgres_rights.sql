-- Rights: owners change budgets by rows of the ledger only. Sums and caps belong to the trigger of hush_entries; people
-- are written where their roles are made, so that nobody is listed who is a role already, such as the server's superuser.

CREATE OR REPLACE FUNCTION {{schema}}.hush_grant(person text, kind text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA {{schema}} TO %I', person);
    EXECUTE format('GRANT SELECT ON {{tables}} TO %I', person);
    IF kind IN ('owner', 'analyst') THEN
        EXECUTE format('GRANT INSERT ON {{schema}}.hush_entries TO %I', person);
        -- UPDATE of the whole table would allow to lock it, and everybody out.
        EXECUTE format('REVOKE UPDATE ON {{schema}}.hush_leases FROM %I', person);
        EXECUTE format('GRANT INSERT, UPDATE (charge, holder, beat, states) ON {{schema}}.hush_leases TO %I', person);
    END IF;
    IF kind = 'owner' THEN
        EXECUTE format('REVOKE INSERT ON {{schema}}.hush_people FROM %I', person);
        EXECUTE format('REVOKE UPDATE ON {{schema}}.hush_budgets, {{schema}}.hush_shares FROM %I', person);
        EXECUTE format('GRANT INSERT ON {{schema}}.hush_datasets, {{schema}}.hush_budgets, {{schema}}.hush_shares TO %I', person);
        EXECUTE format('GRANT UPDATE (retired) ON {{schema}}.hush_budgets TO %I', person);
        EXECUTE format('GRANT UPDATE (millionths, {{limits}}) ON {{schema}}.hush_shares TO %I', person);
        EXECUTE format('GRANT UPDATE (place) ON {{schema}}.hush_head TO %I', person);  -- to lock it
    END IF;
END $$;

CREATE OR REPLACE FUNCTION {{schema}}.hush_admit(person text, kind text, verifier text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF {{schema}}.hush_role() IS DISTINCT FROM 'owner' OR verifier NOT LIKE 'SCRAM-SHA-256$%'
       OR person !~ '^[a-z][a-z0-9_]{0,40}$' OR kind NOT IN ('owner', 'analyst', 'auditor') THEN
        RAISE EXCEPTION 'not allowed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L', person, verifier);
    PERFORM {{schema}}.hush_grant(person, kind);
    INSERT INTO {{schema}}.hush_people (name, role) VALUES (person, kind);
    IF kind <> 'owner' THEN  -- so that hush_end_blockers may end their sessions
        EXECUTE format('GRANT %I TO %I', person, current_user);
    END IF;
END $$;

-- A block comes into being, or ends, in the transaction of the row that says so. None that has ended begins again.
CREATE OR REPLACE FUNCTION {{schema}}.hush_block() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.retired = OLD.retired THEN
        RETURN NEW;  -- a sum, by the trigger of hush_entries
    END IF;
    IF (TG_OP = 'UPDATE' AND OLD.retired) OR NOT EXISTS (
           SELECT FROM {{schema}}.hush_entries AS row, {{schema}}.hush_head AS last
           WHERE row.id = last.id AND row.xmin = pg_current_xact_id()::xid AND row.dataset = NEW.dataset
           AND row.kind = ANY(CASE TG_OP WHEN 'INSERT' THEN ARRAY['dataset', 'block'] ELSE ARRAY['retired'] END)) THEN
        RAISE EXCEPTION 'no row says so' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS hush_block ON {{schema}}.hush_budgets;
CREATE TRIGGER hush_block BEFORE INSERT OR UPDATE ON {{schema}}.hush_budgets
    FOR EACH ROW EXECUTE FUNCTION {{schema}}.hush_block();

REVOKE EXECUTE ON FUNCTION {{schema}}.hush_block() FROM PUBLIC;

DO $$
DECLARE
    keeper text := (SELECT tableowner FROM pg_catalog.pg_tables WHERE tablename = 'hush_entries'
                    AND schemaname = pg_catalog.current_schema());
    person record;
BEGIN
    IF keeper LIKE 'hush\_ledger\_%' THEN  -- the role that nobody can log in as
        EXECUTE format('GRANT CREATE ON SCHEMA {{schema}} TO %I', keeper);
        EXECUTE format('ALTER FUNCTION {{schema}}.hush_block() OWNER TO %I', keeper);
        EXECUTE format('REVOKE CREATE ON SCHEMA {{schema}} FROM %I', keeper);
    END IF;
    -- Owners who were admitted before.
    FOR person IN SELECT name, role FROM {{schema}}.hush_people WHERE role = 'owner' LOOP
        PERFORM {{schema}}.hush_grant(person.name, person.role);
    END LOOP;
END $$;
