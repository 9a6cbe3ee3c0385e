-- What PostgreSQL does by itself, whoever writes: rows are only added, in one chain, under the name of the session, by
-- those who may, and within caps and shares. `sqlite.py` has the same rules for SQLite. It is run again
-- with each new version.
--
-- Functions run with their owner's rights, so that nothing in them may be what a caller can put in its place: every name
-- is written with its schema, and all others are the system's (a session's own temporary tables would come first else).

-- Inlined into the trigger, so it has no search path of its own; its names say their schema instead.
CREATE OR REPLACE FUNCTION {{schema}}.hush_field(value text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(pg_catalog.length(value)::pg_catalog.text OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) value, '-') $$;

CREATE OR REPLACE FUNCTION {{schema}}.hush_only_added() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'rows of a ledger are only ever added' USING ERRCODE = 'integrity_constraint_violation';
END $$;

DROP TRIGGER IF EXISTS hush_only_added ON {{schema}}.hush_entries;
CREATE TRIGGER hush_only_added BEFORE UPDATE OR DELETE ON {{schema}}.hush_entries
    FOR EACH ROW EXECUTE FUNCTION {{schema}}.hush_only_added();
DROP TRIGGER IF EXISTS hush_not_emptied ON {{schema}}.hush_entries;
CREATE TRIGGER hush_not_emptied BEFORE TRUNCATE ON {{schema}}.hush_entries
    FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.hush_only_added();

-- The role of whoever is connected: an owner may act as the tables' owner, or is in the list of people.
CREATE OR REPLACE FUNCTION {{schema}}.hush_role() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT role FROM {{schema}}.hush_people WHERE name = session_user),
                    CASE WHEN pg_has_role(session_user, current_user, 'MEMBER') THEN 'owner' END) $$;

CREATE OR REPLACE FUNCTION {{schema}}.hush_append() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last {{schema}}.hush_head%ROWTYPE;
    reserved {{schema}}.hush_entries%ROWTYPE;
    blocks text[];
    spender text;
    touched integer;
    may text := {{schema}}.hush_role();
BEGIN
    IF TG_RELID <> '{{schema}}.hush_entries'::regclass OR TG_OP <> 'INSERT' OR TG_WHEN <> 'BEFORE' THEN
        RAISE EXCEPTION 'not allowed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT * INTO STRICT last FROM {{schema}}.hush_head FOR UPDATE;
    IF may IS NULL OR NOT (may = 'owner' OR (may = 'analyst' AND NEW.kind IN ('reserved', 'committed', 'voided'))) THEN
        RAISE EXCEPTION 'not allowed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- The index would find these too, but under ON CONFLICT DO NOTHING only after the budgets were changed.
    IF EXISTS (SELECT FROM {{schema}}.hush_entries WHERE charge = NEW.charge) THEN
        RAISE EXCEPTION 'violates unique constraint hush_settled_once' USING ERRCODE = 'unique_violation';
    END IF;
    IF EXISTS (SELECT FROM {{schema}}.hush_entries WHERE dataset = NEW.dataset AND request = NEW.request) THEN
        RAISE EXCEPTION 'violates unique constraint hush_requested_once' USING ERRCODE = 'unique_violation';
    END IF;
    -- Whoever takes a part of somebody else's plan makes the plan useless, and it cannot be voided.
    IF NEW.request LIKE 'plan %' AND may <> 'owner' AND NOT EXISTS (
           SELECT FROM {{schema}}.hush_entries WHERE kind = 'reserved' AND author = session_user AND dataset = NEW.dataset
           AND id = substring(NEW.request FROM '^plan ([0-9]{1,18}) part ')::bigint) THEN
        RAISE EXCEPTION 'no plan of yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- What cannot be read would stand there for good.
    IF json_typeof(NEW.details::json) <> 'object' OR json_typeof(NEW.event::json) <> 'object' THEN
        RAISE EXCEPTION 'neither details nor event of a row' USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.gaussian := coalesce(NEW.gaussian, 0);
    NEW.smoothed := coalesce(NEW.smoothed, 0);
    NEW.id := last.id + 1;
    NEW.previous := last.hash;
    -- Not less and not more: a clock that was wrong once must not close blocks that expire for good.
    NEW.time := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    NEW.author := session_user;
    IF NEW.kind IN ('reserved', 'committed', 'voided') THEN
        spender := NEW.author;
        IF NEW.charge IS NOT NULL THEN
            SELECT * INTO reserved FROM {{schema}}.hush_entries WHERE id = NEW.charge AND kind = 'reserved';
            IF NOT FOUND OR NEW.kind = 'reserved' OR reserved.dataset <> NEW.dataset THEN
                RAISE EXCEPTION 'nothing like that is reserved' USING ERRCODE = 'insufficient_privilege';
            END IF;
            IF NOT (may = 'owner' OR reserved.author = session_user) THEN
                RAISE EXCEPTION 'reserved by somebody else' USING ERRCODE = 'insufficient_privilege';
            END IF;
            IF greatest(NEW.renyi, NEW.pure, NEW.unbounded, NEW.delta, NEW.gaussian, NEW.smoothed) > 0
               OR NEW.renyi < -reserved.renyi OR NEW.pure < -reserved.pure
               OR NEW.unbounded < -reserved.unbounded OR NEW.delta < -reserved.delta
               OR NEW.gaussian < -coalesce(reserved.gaussian, 0) OR NEW.smoothed < -coalesce(reserved.smoothed, 0) THEN
                RAISE EXCEPTION 'more than was reserved' USING ERRCODE = 'insufficient_privilege';
            END IF;
            IF NEW.kind = 'voided' AND EXISTS (SELECT FROM {{schema}}.hush_entries WHERE dataset = NEW.dataset
                                               AND request LIKE 'plan ' || reserved.id || ' part %') THEN
                RAISE EXCEPTION 'parts of the plan were run' USING ERRCODE = 'insufficient_privilege';
            END IF;
            NEW.block := reserved.block;
            NEW.unit := reserved.unit;
            NEW.relation := reserved.relation;
            spender := reserved.author;
        ELSIF NEW.kind = 'voided'
              OR least(NEW.renyi, NEW.pure, NEW.unbounded, NEW.delta, NEW.gaussian, NEW.smoothed) < 0 THEN
            RAISE EXCEPTION 'nothing like that is reserved' USING ERRCODE = 'insufficient_privilege';
        END IF;
        blocks := CASE WHEN NEW.block = '' THEN ARRAY['']
                       ELSE ARRAY(SELECT json_array_elements_text(NEW.block::json)) END;
        IF NOT EXISTS (SELECT FROM {{schema}}.hush_datasets
                       WHERE name = NEW.dataset AND unit = NEW.unit AND relation = NEW.relation) THEN
            RAISE EXCEPTION 'no such budget, unit and relation' USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF NEW.charge IS NULL AND EXISTS (SELECT FROM {{schema}}.hush_budgets
                                          WHERE dataset = NEW.dataset AND block = ANY(blocks)
                                          AND (retired OR expires <= NEW.time)) THEN
            RAISE EXCEPTION 'hush_closed' USING ERRCODE = 'check_violation';
        END IF;
        UPDATE {{schema}}.hush_budgets SET renyi = renyi + NEW.renyi, pure = pure + NEW.pure,
            unbounded = unbounded + NEW.unbounded, delta = delta + NEW.delta,
            gaussian = gaussian + NEW.gaussian, smoothed = smoothed + NEW.smoothed
            WHERE dataset = NEW.dataset AND block = ANY(blocks);
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched = 0 OR touched <> cardinality(blocks) THEN
            RAISE EXCEPTION 'hush_closed' USING ERRCODE = 'check_violation';
        END IF;
        UPDATE {{schema}}.hush_shares SET renyi = renyi + NEW.renyi, pure = pure + NEW.pure,
            unbounded = unbounded + NEW.unbounded, delta = delta + NEW.delta,
            gaussian = gaussian + NEW.gaussian, smoothed = smoothed + NEW.smoothed
            WHERE dataset = NEW.dataset AND block = ANY(blocks) AND name = spender;
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF may = 'analyst' AND touched <> cardinality(blocks) THEN
            RAISE EXCEPTION 'no share' USING ERRCODE = 'insufficient_privilege';
        END IF;
    ELSIF NEW.kind = 'recomputed' THEN
        -- An owner's correction of one block, which `hush ledger verify` can follow: nothing else changes with it.
        blocks := CASE WHEN NEW.block = '' THEN ARRAY['']
                       ELSE ARRAY(SELECT json_array_elements_text(NEW.block::json)) END;
        IF NEW.charge IS NOT NULL OR NEW.event IS NOT NULL OR cardinality(blocks) <> 1 OR NOT EXISTS (
               SELECT FROM {{schema}}.hush_datasets WHERE name = NEW.dataset AND unit = NEW.unit AND relation = NEW.relation) THEN
            RAISE EXCEPTION 'no correction of one block' USING ERRCODE = 'insufficient_privilege';
        END IF;
        UPDATE {{schema}}.hush_budgets SET renyi = renyi + NEW.renyi, pure = pure + NEW.pure,
            unbounded = unbounded + NEW.unbounded, delta = delta + NEW.delta,
            gaussian = gaussian + NEW.gaussian, smoothed = smoothed + NEW.smoothed
            WHERE dataset = NEW.dataset AND block = blocks[1];
        GET DIAGNOSTICS touched = ROW_COUNT;
        IF touched <> 1 THEN
            RAISE EXCEPTION 'no such block' USING ERRCODE = 'insufficient_privilege';
        END IF;
        UPDATE {{schema}}.hush_shares AS own SET renyi = own.renyi + (change.value->>0)::bigint,
            pure = own.pure + (change.value->>1)::bigint, unbounded = own.unbounded + (change.value->>2)::bigint,
            delta = own.delta + (change.value->>3)::bigint,
            gaussian = own.gaussian + coalesce((change.value->>4)::bigint, 0),
            smoothed = own.smoothed + coalesce((change.value->>5)::bigint, 0)
            FROM json_each(NEW.details::json->'shares') AS change
            WHERE own.dataset = NEW.dataset AND own.block = blocks[1] AND own.name = change.key;
    END IF;
    NEW.hash := encode(sha256(convert_to(
        {{hashed}}, 'UTF8')), 'hex');
    UPDATE {{schema}}.hush_head SET id = NEW.id, hash = NEW.hash, time = NEW.time;
    RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS hush_append ON {{schema}}.hush_entries;
CREATE TRIGGER hush_append BEFORE INSERT ON {{schema}}.hush_entries
    FOR EACH ROW EXECUTE FUNCTION {{schema}}.hush_append();

-- Only the trigger above calls it: on a table of somebody's own, it would change budgets without a row.
REVOKE EXECUTE ON FUNCTION {{schema}}.hush_append() FROM PUBLIC;
