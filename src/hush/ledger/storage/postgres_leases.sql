-- Leases: a process holds a pending reservation of its own user, or of anybody if it is an owner's. The server's clock
-- times them, so that machines with wrong clocks do not take each other's.

CREATE FUNCTION {{schema}}.hush_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_RELID <> '{{schema}}.hush_leases'::regclass OR TG_WHEN <> 'BEFORE' OR NOT EXISTS (
           SELECT FROM {{schema}}.hush_entries WHERE id = NEW.charge AND kind = 'reserved'
           AND ({{schema}}.hush_role() = 'owner' OR author = session_user))
       OR (TG_OP = 'UPDATE' AND (NEW.charge <> OLD.charge OR NEW.states < OLD.states)) THEN
        RAISE EXCEPTION 'not allowed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.beat := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    RETURN NEW;
END $$;

CREATE TRIGGER hush_lease BEFORE INSERT OR UPDATE ON {{schema}}.hush_leases
    FOR EACH ROW EXECUTE FUNCTION {{schema}}.hush_lease();

REVOKE EXECUTE ON FUNCTION {{schema}}.hush_lease() FROM PUBLIC;

-- People who were admitted before there were leases.
DO $$
DECLARE person record;
BEGIN
    FOR person IN SELECT name, role FROM {{schema}}.hush_people LOOP
        EXECUTE format('GRANT SELECT ON {{schema}}.hush_leases TO %I', person.name);
        IF person.role = 'analyst' THEN
            EXECUTE format('GRANT INSERT, UPDATE ON {{schema}}.hush_leases TO %I', person.name);
        END IF;
    END LOOP;
END $$;
