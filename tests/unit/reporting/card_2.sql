BEGIN TRANSACTION;
CREATE TABLE dp_account (
	name VARCHAR(200) NOT NULL, 
	unit TEXT NOT NULL, 
	max_rows BIGINT NOT NULL, 
	relation VARCHAR(16) NOT NULL, 
	epsilon DOUBLE NOT NULL, 
	delta DOUBLE NOT NULL, 
	rule VARCHAR(8) NOT NULL, 
	"order" DOUBLE, 
	cost_limit BIGINT NOT NULL, 
	delta_limit BIGINT NOT NULL, 
	opened_at VARCHAR(40) NOT NULL, 
	who TEXT NOT NULL, 
	why TEXT NOT NULL, 
	cost_spent BIGINT NOT NULL, 
	cost_held BIGINT NOT NULL, 
	delta_spent BIGINT NOT NULL, 
	delta_held BIGINT NOT NULL, 
	unit_in_one_block BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "dp_account" VALUES('people','row',1,'add-remove',5.0,1.0e-05,'filter',6.0,3227829698,500000000000,'2026-11-23T18:01:57.027+00:00','officer','',10969946,0,0,0,0);
CREATE TABLE dp_block (
	account VARCHAR(200) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	cost_spent BIGINT NOT NULL, 
	cost_held BIGINT NOT NULL, 
	delta_spent BIGINT NOT NULL, 
	delta_held BIGINT NOT NULL, 
	PRIMARY KEY (account, name), 
	FOREIGN KEY(account) REFERENCES dp_account (name)
);
CREATE TABLE dp_checkpoint (
	id INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE dp_entry (
	id VARCHAR(32) NOT NULL, 
	release_id VARCHAR(32) NOT NULL, 
	account VARCHAR(200) NOT NULL, 
	position INTEGER NOT NULL, 
	mechanism TEXT NOT NULL, 
	events TEXT NOT NULL, 
	cost BIGINT NOT NULL, 
	delta BIGINT NOT NULL, 
	state VARCHAR(8) NOT NULL, 
	steps_started BIGINT NOT NULL, 
	"key" TEXT, 
	started_at VARCHAR(40) NOT NULL, 
	settled_at VARCHAR(40), 
	planned TEXT DEFAULT '[]' NOT NULL, 
	upon TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT dp_entry_once UNIQUE (release_id, mechanism), 
	FOREIGN KEY(release_id) REFERENCES dp_release (id), 
	FOREIGN KEY(account) REFERENCES dp_account (name)
);
INSERT INTO "dp_entry" VALUES('1ea477303f994ca8ab2343c9e7a200ef','bce9669134a14a0ab5c709b40d82020a','people',0,'profile','[{"count": 12, "kind": "discrete_gaussian", "scale": 60.0, "sensitivity": 1}]',10000001,0,'settled',0,NULL,'2026-11-23T18:01:57.552+00:00','2026-11-23T18:01:58.168+00:00','[]','[]');
INSERT INTO "dp_entry" VALUES('087f587ca54e4f4e9920fa7a28fbb4f0','bce9669134a14a0ab5c709b40d82020a','people',1,'training','[{"kind": "subsampled_gaussian", "noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 50}]',969945,0,'settled',0,NULL,'2026-11-23T18:01:57.824+00:00','2026-11-23T18:01:58.168+00:00','[]','[]');
CREATE TABLE dp_journal (
	seq BIGINT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	who TEXT NOT NULL, 
	action VARCHAR(16) NOT NULL, 
	account TEXT NOT NULL, 
	release_id VARCHAR(32), 
	entry_id VARCHAR(32), 
	body TEXT NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (hash)
);
INSERT INTO "dp_journal" VALUES(1,'2026-11-23T18:01:57.073+00:00','officer','opened','people',NULL,NULL,'{"account": {"cost_limit": 3227829698, "delta": 1e-05, "delta_limit": 500000000000, "epsilon": 5.0, "max_rows": 1, "name": "people", "opened_at": "2026-11-23T18:01:57.027+00:00", "order": 6.0, "relation": "add-remove", "rule": "filter", "unit": "row", "unit_in_one_block": false, "who": "officer", "why": ""}, "entries": [], "release": null}','0000000000000000000000000000000000000000000000000000000000000000','72aea9b8d1d99b499ce0dd686867d8464ba8982c1e5be9f3853e0470790474b7');
INSERT INTO "dp_journal" VALUES(2,'2026-11-23T18:01:57.482+00:00','officer','reserved','people','bce9669134a14a0ab5c709b40d82020a',NULL,'{"account": null, "entries": [], "release": {"account": "people", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "c0de", "delta": 1e-06, "ended_at": null, "epsilon": 1.0, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "bce9669134a14a0ab5c709b40d82020a", "key": "k", "order": 6.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-23T18:01:57.454+00:00", "reserved_cost": 168084819, "reserved_delta": 0, "run_id": "run-k", "started_at": null, "state": "reserved", "table": "people", "who": "officer", "why": ""}}','72aea9b8d1d99b499ce0dd686867d8464ba8982c1e5be9f3853e0470790474b7','1f17465913de4ad6b0684d7a9be3cd0dcb7b93719b977295323e18f344518c08');
INSERT INTO "dp_journal" VALUES(3,'2026-11-23T18:01:57.754+00:00','officer','started','people','bce9669134a14a0ab5c709b40d82020a','1ea477303f994ca8ab2343c9e7a200ef','{"account": null, "entries": [{"account": "people", "cost": 10000001, "delta": 0, "events": "[{\"count\": 12, \"kind\": \"discrete_gaussian\", \"scale\": 60.0, \"sensitivity\": 1}]", "id": "1ea477303f994ca8ab2343c9e7a200ef", "key": null, "mechanism": "profile", "planned": "[]", "position": 0, "release_id": "bce9669134a14a0ab5c709b40d82020a", "settled_at": null, "started_at": "2026-11-23T18:01:57.552+00:00", "state": "started", "steps_started": 0, "upon": "[]"}], "release": {"account": "people", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "c0de", "delta": 1e-06, "ended_at": null, "epsilon": 1.0, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "bce9669134a14a0ab5c709b40d82020a", "key": "k", "order": 6.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-23T18:01:57.454+00:00", "reserved_cost": 168084819, "reserved_delta": 0, "run_id": "run-k", "started_at": "2026-11-23T18:01:57.716+00:00", "state": "started", "table": "people", "who": "officer", "why": ""}}','1f17465913de4ad6b0684d7a9be3cd0dcb7b93719b977295323e18f344518c08','3d24a06f1d5c513985f6f443ce05b2be1a2aada507c66651dd0fa3a1e84a8051');
INSERT INTO "dp_journal" VALUES(4,'2026-11-23T18:01:57.998+00:00','officer','started','people','bce9669134a14a0ab5c709b40d82020a','087f587ca54e4f4e9920fa7a28fbb4f0','{"account": null, "entries": [{"account": "people", "cost": 969945, "delta": 0, "events": "[{\"kind\": \"subsampled_gaussian\", \"noise_multiplier\": 4.0, \"sample_rate\": 0.01, \"steps\": 50}]", "id": "087f587ca54e4f4e9920fa7a28fbb4f0", "key": null, "mechanism": "training", "planned": "[]", "position": 1, "release_id": "bce9669134a14a0ab5c709b40d82020a", "settled_at": null, "started_at": "2026-11-23T18:01:57.824+00:00", "state": "started", "steps_started": 0, "upon": "[]"}], "release": {"account": "people", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "c0de", "delta": 1e-06, "ended_at": null, "epsilon": 1.0, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "bce9669134a14a0ab5c709b40d82020a", "key": "k", "order": 6.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-23T18:01:57.454+00:00", "reserved_cost": 168084819, "reserved_delta": 0, "run_id": "run-k", "started_at": "2026-11-23T18:01:57.716+00:00", "state": "started", "table": "people", "who": "officer", "why": ""}}','3d24a06f1d5c513985f6f443ce05b2be1a2aada507c66651dd0fa3a1e84a8051','da3fabf1110e6f2ddc20ec1291989e9bdc17bbd3ffd6b7b47b8686468fad4608');
INSERT INTO "dp_journal" VALUES(5,'2026-11-23T18:01:58.077+00:00','officer','source','people','bce9669134a14a0ab5c709b40d82020a',NULL,'{"account": null, "entries": [], "release": {"account": "people", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "c0de", "delta": 1e-06, "ended_at": null, "epsilon": 1.0, "final_delta": null, "final_epsilon": null, "fingerprint": "7bf30c9e06eca3291f0a5d34f18fbd118bd67726347381002fba57d4068c7634f13699ff059f42a697534216211b2ef0", "id": "bce9669134a14a0ab5c709b40d82020a", "key": "k", "order": 6.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-23T18:01:57.454+00:00", "reserved_cost": 168084819, "reserved_delta": 0, "run_id": "run-k", "started_at": "2026-11-23T18:01:57.716+00:00", "state": "started", "table": "people", "who": "officer", "why": ""}}','da3fabf1110e6f2ddc20ec1291989e9bdc17bbd3ffd6b7b47b8686468fad4608','e25e72e5de76ee632e023a8e05cac0169f88761a0d3837b6a586e379f1f20121');
INSERT INTO "dp_journal" VALUES(6,'2026-11-23T18:01:58.187+00:00','officer','settled','people','bce9669134a14a0ab5c709b40d82020a',NULL,'{"account": null, "entries": [{"account": "people", "cost": 10000001, "delta": 0, "events": "[{\"count\": 12, \"kind\": \"discrete_gaussian\", \"scale\": 60.0, \"sensitivity\": 1}]", "id": "1ea477303f994ca8ab2343c9e7a200ef", "key": null, "mechanism": "profile", "planned": "[]", "position": 0, "release_id": "bce9669134a14a0ab5c709b40d82020a", "settled_at": "2026-11-23T18:01:58.168+00:00", "started_at": "2026-11-23T18:01:57.552+00:00", "state": "settled", "steps_started": 0, "upon": "[]"}, {"account": "people", "cost": 969945, "delta": 0, "events": "[{\"kind\": \"subsampled_gaussian\", \"noise_multiplier\": 4.0, \"sample_rate\": 0.01, \"steps\": 50}]", "id": "087f587ca54e4f4e9920fa7a28fbb4f0", "key": null, "mechanism": "training", "planned": "[]", "position": 1, "release_id": "bce9669134a14a0ab5c709b40d82020a", "settled_at": "2026-11-23T18:01:58.168+00:00", "started_at": "2026-11-23T18:01:57.824+00:00", "state": "settled", "steps_started": 0, "upon": "[]"}], "release": {"account": "people", "blocks": "[]", "charged_cost": 10969946, "charged_delta": 0, "code_version": "c0de", "delta": 1e-06, "ended_at": "2026-11-23T18:01:58.168+00:00", "epsilon": 1.0, "final_delta": 1e-06, "final_epsilon": 0.23227385342872736, "fingerprint": "7bf30c9e06eca3291f0a5d34f18fbd118bd67726347381002fba57d4068c7634f13699ff059f42a697534216211b2ef0", "id": "bce9669134a14a0ab5c709b40d82020a", "key": "k", "order": 6.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-23T18:01:57.454+00:00", "reserved_cost": 168084819, "reserved_delta": 0, "run_id": "run-k", "started_at": "2026-11-23T18:01:57.716+00:00", "state": "settled", "table": "people", "who": "officer", "why": ""}}','e25e72e5de76ee632e023a8e05cac0169f88761a0d3837b6a586e379f1f20121','527fe344ad4e5c44f928e0f49930fe1eb7d401ae18a6edcc7644eddafd19260e');
CREATE TABLE dp_plan (
	id VARCHAR(32) NOT NULL, 
	account VARCHAR(200) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	events TEXT NOT NULL, 
	times BIGINT NOT NULL, 
	used BIGINT NOT NULL, 
	takes VARCHAR(8) NOT NULL, 
	epsilon DOUBLE NOT NULL, 
	delta DOUBLE NOT NULL, 
	cost BIGINT NOT NULL, 
	cost_delta BIGINT NOT NULL, 
	relation VARCHAR(16) NOT NULL, 
	declared_at VARCHAR(40) NOT NULL, 
	who TEXT NOT NULL, 
	why TEXT NOT NULL, 
	mechanisms TEXT DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT dp_plan_once UNIQUE (account, name), 
	FOREIGN KEY(account) REFERENCES dp_account (name)
);
CREATE TABLE dp_release (
	id VARCHAR(32) NOT NULL, 
	account VARCHAR(200) NOT NULL, 
	"key" TEXT NOT NULL, 
	"table" TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	code_version TEXT NOT NULL, 
	epsilon DOUBLE NOT NULL, 
	delta DOUBLE NOT NULL, 
	own_delta DOUBLE NOT NULL, 
	"order" DOUBLE, 
	reserved_cost BIGINT NOT NULL, 
	reserved_delta BIGINT NOT NULL, 
	state VARCHAR(8) NOT NULL, 
	charged_cost BIGINT, 
	charged_delta BIGINT, 
	final_epsilon DOUBLE, 
	final_delta DOUBLE, 
	fingerprint TEXT, 
	who TEXT NOT NULL, 
	why TEXT NOT NULL, 
	reserved_at VARCHAR(40) NOT NULL, 
	started_at VARCHAR(40), 
	ended_at VARCHAR(40), 
	"plan" VARCHAR(32), 
	blocks TEXT DEFAULT '[]' NOT NULL, 
	relation VARCHAR(16) DEFAULT 'add-remove' NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(account) REFERENCES dp_account (name), 
	UNIQUE ("key")
);
INSERT INTO "dp_release" VALUES('bce9669134a14a0ab5c709b40d82020a','people','k','people','run-k','c0de',1.0,1.0e-06,0.0,6.0,168084819,0,'settled',10969946,0,2.32273853428727361514e-01,1.0e-06,'7bf30c9e06eca3291f0a5d34f18fbd118bd67726347381002fba57d4068c7634f13699ff059f42a697534216211b2ef0','officer','','2026-11-23T18:01:57.454+00:00','2026-11-23T18:01:57.716+00:00','2026-11-23T18:01:58.168+00:00',NULL,'[]','add-remove');
CREATE TABLE dp_store (
	id INTEGER NOT NULL, 
	schema_version INTEGER NOT NULL, 
	length BIGINT NOT NULL, 
	head VARCHAR(64) NOT NULL, 
	key_id VARCHAR(64) NOT NULL, 
	"key" VARCHAR(64), 
	PRIMARY KEY (id)
);
INSERT INTO "dp_store" VALUES(1,5,6,'527fe344ad4e5c44f928e0f49930fe1eb7d401ae18a6edcc7644eddafd19260e','bcc181a9e078304440a98094b3f859ce1f56c8cab37ce015215185b9acbc3d82',NULL);
CREATE INDEX ix_dp_journal_account ON dp_journal (account);
CREATE INDEX dp_release_source ON dp_release (fingerprint);
CREATE INDEX ix_dp_release_account ON dp_release (account);
CREATE INDEX ix_dp_entry_account ON dp_entry (account);
COMMIT;
