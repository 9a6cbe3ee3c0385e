BEGIN TRANSACTION;
CREATE TABLE hush_budgets (
	dataset TEXT NOT NULL, 
	block TEXT NOT NULL, 
	renyi BIGINT DEFAULT '0' NOT NULL, 
	pure BIGINT DEFAULT '0' NOT NULL, 
	unbounded BIGINT DEFAULT '0' NOT NULL, 
	delta BIGINT DEFAULT '0' NOT NULL, 
	most_renyi BIGINT NOT NULL, 
	most_pure BIGINT NOT NULL, 
	most_delta BIGINT NOT NULL, 
	retired BOOLEAN DEFAULT 0 NOT NULL, 
	expires BIGINT, 
	PRIMARY KEY (dataset, block), 
	CONSTRAINT hush_within_cap CHECK (delta <= most_delta AND (renyi <= most_renyi OR (unbounded = 0 AND pure <= most_pure))), 
	CONSTRAINT hush_not_negative CHECK (renyi >= 0 AND pure >= 0 AND unbounded >= 0 AND delta >= 0)
);
INSERT INTO "hush_budgets" VALUES('patients','',1015240478025,1000000000000,2,0,1502511257122,3000000000000,100000000000,0,NULL);
CREATE TABLE hush_datasets (
	name TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	relation TEXT NOT NULL, 
	fingerprint TEXT, 
	details TEXT NOT NULL, 
	PRIMARY KEY (name), 
	UNIQUE (fingerprint)
);
INSERT INTO "hush_datasets" VALUES('patients','user','add-or-remove',NULL,'{"epsilon": 3.0, "delta": 1e-06, "order": 8.2605, "claims_delta": 1e-07, "relation": "add-or-remove", "unit": {"kind": "user", "window": null, "called": "patient"}, "in_blocks": false}');
CREATE TABLE hush_entries (
	id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	block TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	relation TEXT NOT NULL, 
	charge BIGINT, 
	event TEXT, 
	purpose TEXT NOT NULL, 
	author TEXT NOT NULL, 
	question VARCHAR(64), 
	request TEXT, 
	renyi BIGINT DEFAULT '0' NOT NULL, 
	pure BIGINT DEFAULT '0' NOT NULL, 
	unbounded BIGINT DEFAULT '0' NOT NULL, 
	delta BIGINT DEFAULT '0' NOT NULL, 
	answer TEXT, 
	details TEXT NOT NULL, 
	time BIGINT NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "hush_entries" VALUES(1,'dataset','patients','','user','add-or-remove',NULL,NULL,'','root',NULL,NULL,0,0,0,0,NULL,'{"epsilon": 3.0, "delta": 1e-06, "order": 8.2605, "claims_delta": 1e-07, "relation": "add-or-remove", "unit": {"kind": "user", "window": null, "called": "patient"}, "in_blocks": false, "fingerprint": null}',1795061593596359,'0000000000000000000000000000000000000000000000000000000000000000','f7baa650ccd07458acabd5b2c781eb7b77e754d363d46f666f997f1ef992dc4f');
INSERT INTO "hush_entries" VALUES(2,'committed','patients','','user','add-or-remove',NULL,'{"schema": "hush.event/1", "kind": "laplace", "scale": 1.0}','a count','root',NULL,NULL,913131519690,1000000000000,0,0,NULL,'{"delta": null, "stated": null}',1795061593609604,'f7baa650ccd07458acabd5b2c781eb7b77e754d363d46f666f997f1ef992dc4f','db523fb2025eca86475ca61440139c465c5b2e87f508f282c9b064419b87f100');
INSERT INTO "hush_entries" VALUES(3,'committed','patients','','user','add-or-remove',NULL,'{"schema": "hush.event/1", "kind": "gaussian", "noise_multiplier": 20.0}','a mean','root',NULL,NULL,10325625001,0,1,0,NULL,'{"delta": null, "stated": null}',1795061593612572,'db523fb2025eca86475ca61440139c465c5b2e87f508f282c9b064419b87f100','de436b38181487297c236760c59e43f7aaa566271af2ac167899ec8965cd03cc');
INSERT INTO "hush_entries" VALUES(4,'reserved','patients','','user','add-or-remove',NULL,'{"schema": "hush.event/1", "kind": "self-composed", "event": {"kind": "gaussian", "noise_multiplier": 30.0}, "count": 20}','training','root',NULL,'run',91783333334,0,1,0,NULL,'{"sealed": false, "delta": null, "stated": null}',1795061593617709,'de436b38181487297c236760c59e43f7aaa566271af2ac167899ec8965cd03cc','f3276caea8ef0c54997365cd92a96617b44f15c471c66f06c3cf6658a65e5009');
CREATE TABLE hush_head (
	place INTEGER NOT NULL, 
	id BIGINT NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	time BIGINT NOT NULL, 
	PRIMARY KEY (place)
);
INSERT INTO "hush_head" VALUES(1,4,'f3276caea8ef0c54997365cd92a96617b44f15c471c66f06c3cf6658a65e5009',1795061593617709);
CREATE TABLE hush_leases (
	charge INTEGER NOT NULL, 
	holder TEXT NOT NULL, 
	beat BIGINT NOT NULL, 
	states BIGINT NOT NULL, 
	PRIMARY KEY (charge)
);
CREATE TABLE hush_ledger (
	version INTEGER NOT NULL
);
INSERT INTO "hush_ledger" VALUES(3);
CREATE TABLE hush_people (
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	token VARCHAR(64), 
	PRIMARY KEY (name)
);
CREATE TABLE hush_shares (
	dataset TEXT NOT NULL, 
	block TEXT NOT NULL, 
	name TEXT NOT NULL, 
	renyi BIGINT DEFAULT '0' NOT NULL, 
	pure BIGINT DEFAULT '0' NOT NULL, 
	unbounded BIGINT DEFAULT '0' NOT NULL, 
	delta BIGINT DEFAULT '0' NOT NULL, 
	most_renyi BIGINT NOT NULL, 
	most_pure BIGINT NOT NULL, 
	most_delta BIGINT NOT NULL, 
	millionths INTEGER NOT NULL, 
	PRIMARY KEY (dataset, block, name), 
	CONSTRAINT hush_within_share CHECK (delta <= most_delta AND (renyi <= most_renyi OR (unbounded = 0 AND pure <= most_pure)))
);
CREATE INDEX hush_asked ON hush_entries (question) WHERE question IS NOT NULL;
CREATE UNIQUE INDEX hush_requested_once ON hush_entries (dataset, request) WHERE request IS NOT NULL;
CREATE UNIQUE INDEX hush_settled_once ON hush_entries (charge) WHERE charge IS NOT NULL;
CREATE INDEX hush_by_dataset ON hush_entries (dataset, kind);
CREATE TRIGGER hush_only_added_update BEFORE UPDATE ON hush_entries BEGIN SELECT RAISE(ABORT, 'rows of a ledger are only ever added'); END;
CREATE TRIGGER hush_only_added_delete BEFORE DELETE ON hush_entries BEGIN SELECT RAISE(ABORT, 'rows of a ledger are only ever added'); END;
COMMIT;
