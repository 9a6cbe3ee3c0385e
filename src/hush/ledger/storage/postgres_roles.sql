-- Roles: a role that nobody can log in as owns the tables and functions. People have rights to rows only, so that not
-- even an owner of the ledger can change a table, a trigger or a function, which would then run for everybody else.

CREATE FUNCTION {{schema}}.hush_grant(person text, kind text) RETURNS void LANGUAGE plpgsql
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
        EXECUTE format('GRANT INSERT ON {{schema}}.hush_datasets, {{schema}}.hush_people TO %I', person);
        EXECUTE format('GRANT INSERT, UPDATE ON {{schema}}.hush_budgets, {{schema}}.hush_shares TO %I', person);
        EXECUTE format('GRANT UPDATE (place) ON {{schema}}.hush_head TO %I', person);  -- to lock it
    END IF;
END $$;

-- Only this function makes roles, since a role that may do so can take over a server before version 16.
CREATE FUNCTION {{schema}}.hush_admit(person text, kind text, verifier text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF {{schema}}.hush_role() IS DISTINCT FROM 'owner' OR verifier NOT LIKE 'SCRAM-SHA-256$%'
       OR person !~ '^[a-z][a-z0-9_]{0,40}$' OR kind NOT IN ('owner', 'analyst', 'auditor') THEN
        RAISE EXCEPTION 'not allowed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L', person, verifier);
    PERFORM {{schema}}.hush_grant(person, kind);
    IF kind <> 'owner' THEN  -- so that hush_end_blockers may end their sessions
        EXECUTE format('GRANT %I TO %I', person, current_user);
    END IF;
END $$;

-- A transaction that has appended a row, and stays open, blocks everybody. hush waits five seconds for the end of the
-- chain before it begins again, so whoever has been there for ten seconds is none of its own.
CREATE FUNCTION {{schema}}.hush_end_blockers() RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(pg_terminate_backend(session.pid)) FROM pg_stat_activity AS session
    WHERE session.datname = current_database() AND session.pid <> pg_backend_pid()
      AND session.xact_start < clock_timestamp() - interval '10 seconds'
      AND session.usename IN (SELECT name FROM {{schema}}.hush_people WHERE role <> 'owner')
      AND pg_has_role(current_user, session.usesysid, 'USAGE')
      AND EXISTS (SELECT FROM pg_locks WHERE pid = session.pid AND granted AND mode <> 'AccessShareLock'
                  AND relation = '{{schema}}.hush_head'::regclass) $$;

REVOKE EXECUTE ON FUNCTION {{schema}}.hush_grant(text, text) FROM PUBLIC;

-- Without this, SELECT FOR UPDATE locks the leases of others, who wait for them while they hold the chain's end.
ALTER TABLE {{schema}}.hush_leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY hush_read ON {{schema}}.hush_leases FOR SELECT USING (true);
CREATE POLICY hush_take ON {{schema}}.hush_leases FOR INSERT WITH CHECK (true);  -- the trigger checks it
CREATE POLICY hush_renew ON {{schema}}.hush_leases FOR UPDATE USING ({{schema}}.hush_role() = 'owner' OR EXISTS (
    SELECT FROM {{schema}}.hush_entries WHERE id = hush_leases.charge AND author = session_user));

DO $$
DECLARE
    keeper text := 'hush_ledger_' || pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', '');
    before text := (SELECT tableowner FROM pg_catalog.pg_tables WHERE tablename = 'hush_entries'
                    AND schemaname = pg_catalog.current_schema());
    creator record;
    table_name text;
    thing record;
BEGIN
    SELECT rolsuper, rolcreaterole INTO creator FROM pg_catalog.pg_roles WHERE rolname = current_user;
    IF NOT (creator.rolsuper OR creator.rolcreaterole) THEN
        RETURN;  -- nobody can be admitted then, and the tables stay with whoever made them
    END IF;
    EXECUTE format('CREATE ROLE %I NOLOGIN CREATEROLE', keeper);
    IF NOT creator.rolsuper THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', keeper);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA {{schema}} TO %I WITH GRANT OPTION', keeper);
    EXECUTE format('GRANT CREATE ON SCHEMA {{schema}} TO %I', keeper);
    FOREACH table_name IN ARRAY ARRAY[{{names}}] LOOP
        EXECUTE format('ALTER TABLE {{schema}}.%I OWNER TO %I', table_name, keeper);
    END LOOP;
    FOR thing IN SELECT oid::regprocedure AS name FROM pg_catalog.pg_proc
                 WHERE proname LIKE 'hush\_%' AND pronamespace = '{{schema}}'::regnamespace
                 AND proowner = quote_ident(before)::regrole LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', thing.name, keeper);
    END LOOP;
    EXECUTE format('REVOKE CREATE ON SCHEMA {{schema}} FROM %I', keeper);
    -- People who were admitted before, as members of whoever made the ledger.
    FOR thing IN SELECT name, role FROM {{schema}}.hush_people LOOP
        IF thing.role = 'owner' THEN
            EXECUTE format('REVOKE %I FROM %I', before, thing.name);
            EXECUTE format('ALTER ROLE %I NOCREATEROLE', thing.name);
        ELSE
            EXECUTE format('GRANT %I TO %I', thing.name, keeper);
        END IF;
        PERFORM {{schema}}.hush_grant(thing.name, thing.role);
    END LOOP;
END $$;
