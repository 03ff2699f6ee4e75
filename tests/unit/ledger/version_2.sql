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
INSERT INTO "dp_account" VALUES('f','row',1,'add-remove',3.5,1.0e-05,'filter',10.0,2576290108,500000000000,'2026-11-22T23:49:06.734+00:00','officer','',1426444,77011299,0,0,0);
INSERT INTO "dp_account" VALUES('b','row',1,'add-remove',1.0,1.0e-05,'plan',NULL,1000000000,10000000000000,'2026-11-22T23:49:06.927+00:00','officer','',0,0,0,0,1);
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
INSERT INTO "dp_block" VALUES('b','feb',0,0,0,0);
INSERT INTO "dp_block" VALUES('b','jan',0,100000000,0,1000000000000);
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
	PRIMARY KEY (id), 
	CONSTRAINT dp_entry_once UNIQUE (release_id, mechanism), 
	FOREIGN KEY(release_id) REFERENCES dp_release (id), 
	FOREIGN KEY(account) REFERENCES dp_account (name)
);
INSERT INTO "dp_entry" VALUES('e195d2454ef64d62b66006d2a7abb001','c01b2e6eeb934ef2b35653cc33095ce3','f',0,'profile','[{"count": 1, "kind": "gaussian", "noise_multiplier": 60.0}]',1388889,0,'settled',0,NULL,'2026-11-22T23:49:07.765+00:00','2026-11-22T23:49:07.975+00:00');
INSERT INTO "dp_entry" VALUES('95e4125802034b7b93e986907ee70c5c','60938ce19cd84ed08b12ba59dc0c8290','f',0,'training','[{"kind": "subsampled_gaussian", "noise_multiplier": 20.0, "sample_rate": 0.01, "steps": 10}]',12519,0,'started',4,NULL,'2026-11-22T23:49:08.320+00:00',NULL);
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
INSERT INTO "dp_journal" VALUES(1,'2026-11-22T23:49:06.854+00:00','officer','opened','f',NULL,NULL,'{"account": {"cost_limit": 2076290108, "delta": 1e-05, "delta_limit": 500000000000, "epsilon": 3.0, "max_rows": 1, "name": "f", "opened_at": "2026-11-22T23:49:06.734+00:00", "order": 10.0, "relation": "add-remove", "rule": "filter", "unit": "row", "unit_in_one_block": false, "who": "officer", "why": ""}, "entries": [], "release": null}','0000000000000000000000000000000000000000000000000000000000000000','89a737068bcafc277efecc45914645b4728757d332c45a9f6303180e80bb7776');
INSERT INTO "dp_journal" VALUES(2,'2026-11-22T23:49:06.972+00:00','officer','opened','b',NULL,NULL,'{"account": {"cost_limit": 1000000000, "delta": 1e-05, "delta_limit": 10000000000000, "epsilon": 1.0, "max_rows": 1, "name": "b", "opened_at": "2026-11-22T23:49:06.927+00:00", "order": null, "relation": "add-remove", "rule": "plan", "unit": "row", "unit_in_one_block": true, "who": "officer", "why": ""}, "blocks": ["feb", "jan"], "entries": [], "release": null}','89a737068bcafc277efecc45914645b4728757d332c45a9f6303180e80bb7776','ace5f9ff5f0bcb6aaace6eb2a8c8859a921d675cadbaad279ebcd521785be786');
INSERT INTO "dp_journal" VALUES(3,'2026-11-22T23:49:07.667+00:00','officer','reserved','f','c01b2e6eeb934ef2b35653cc33095ce3',NULL,'{"account": null, "entries": [], "release": {"account": "f", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-06, "ended_at": null, "epsilon": 0.5, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "c01b2e6eeb934ef2b35653cc33095ce3", "key": "settled", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:07.572+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": null, "state": "reserved", "table": "t", "who": "officer", "why": ""}}','ace5f9ff5f0bcb6aaace6eb2a8c8859a921d675cadbaad279ebcd521785be786','ea9a7ebde1e3fee775c57204250fe7f07229e8f951ee5f1eb2de860f6664f851');
INSERT INTO "dp_journal" VALUES(4,'2026-11-22T23:49:07.877+00:00','officer','started','f','c01b2e6eeb934ef2b35653cc33095ce3','e195d2454ef64d62b66006d2a7abb001','{"account": null, "entries": [{"account": "f", "cost": 1388889, "delta": 0, "events": "[{\"count\": 1, \"kind\": \"gaussian\", \"noise_multiplier\": 60.0}]", "id": "e195d2454ef64d62b66006d2a7abb001", "key": null, "mechanism": "profile", "position": 0, "release_id": "c01b2e6eeb934ef2b35653cc33095ce3", "settled_at": null, "started_at": "2026-11-22T23:49:07.765+00:00", "state": "started", "steps_started": 0}], "release": {"account": "f", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-06, "ended_at": null, "epsilon": 0.5, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "c01b2e6eeb934ef2b35653cc33095ce3", "key": "settled", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:07.572+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": "2026-11-22T23:49:07.802+00:00", "state": "started", "table": "t", "who": "officer", "why": ""}}','ea9a7ebde1e3fee775c57204250fe7f07229e8f951ee5f1eb2de860f6664f851','1ac49b8d136319b41f981a341bd665e6e7942a7c060b13587c75005db6d21482');
INSERT INTO "dp_journal" VALUES(5,'2026-11-22T23:49:08.050+00:00','officer','settled','f','c01b2e6eeb934ef2b35653cc33095ce3','e195d2454ef64d62b66006d2a7abb001','{"account": null, "entries": [{"account": "f", "cost": 1388889, "delta": 0, "events": "[{\"count\": 1, \"kind\": \"gaussian\", \"noise_multiplier\": 60.0}]", "id": "e195d2454ef64d62b66006d2a7abb001", "key": null, "mechanism": "profile", "position": 0, "release_id": "c01b2e6eeb934ef2b35653cc33095ce3", "settled_at": "2026-11-22T23:49:07.975+00:00", "started_at": "2026-11-22T23:49:07.765+00:00", "state": "settled", "steps_started": 0}], "release": {"account": "f", "blocks": "[]", "charged_cost": 1388889, "charged_delta": 0, "code_version": "v", "delta": 1e-06, "ended_at": "2026-11-22T23:49:07.975+00:00", "epsilon": 0.5, "final_delta": 1e-06, "final_epsilon": 0.05834827385968126, "fingerprint": null, "id": "c01b2e6eeb934ef2b35653cc33095ce3", "key": "settled", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:07.572+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": "2026-11-22T23:49:07.802+00:00", "state": "settled", "table": "t", "who": "officer", "why": ""}}','1ac49b8d136319b41f981a341bd665e6e7942a7c060b13587c75005db6d21482','8599c4532c84f37136d0d7383614441902e8ef332ab981dc9b919df92f9c6abc');
INSERT INTO "dp_journal" VALUES(6,'2026-11-22T23:49:08.238+00:00','officer','reserved','f','60938ce19cd84ed08b12ba59dc0c8290',NULL,'{"account": null, "entries": [], "release": {"account": "f", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-06, "ended_at": null, "epsilon": 0.5, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "60938ce19cd84ed08b12ba59dc0c8290", "key": "open", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:08.179+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": null, "state": "reserved", "table": "t", "who": "officer", "why": ""}}','8599c4532c84f37136d0d7383614441902e8ef332ab981dc9b919df92f9c6abc','f5b6d16bedc8faffc41f638f3d6fac0d781a4cd25b7213ac48f17ab62709ee6f');
INSERT INTO "dp_journal" VALUES(7,'2026-11-22T23:49:08.661+00:00','officer','started','f','60938ce19cd84ed08b12ba59dc0c8290','95e4125802034b7b93e986907ee70c5c','{"account": null, "entries": [{"account": "f", "cost": 12519, "delta": 0, "events": "[{\"kind\": \"subsampled_gaussian\", \"noise_multiplier\": 20.0, \"sample_rate\": 0.01, \"steps\": 10}]", "id": "95e4125802034b7b93e986907ee70c5c", "key": null, "mechanism": "training", "position": 0, "release_id": "60938ce19cd84ed08b12ba59dc0c8290", "settled_at": null, "started_at": "2026-11-22T23:49:08.320+00:00", "state": "started", "steps_started": 0}], "release": {"account": "f", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-06, "ended_at": null, "epsilon": 0.5, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "60938ce19cd84ed08b12ba59dc0c8290", "key": "open", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:08.179+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": "2026-11-22T23:49:08.607+00:00", "state": "started", "table": "t", "who": "officer", "why": ""}}','f5b6d16bedc8faffc41f638f3d6fac0d781a4cd25b7213ac48f17ab62709ee6f','cb53e55f241d22170f134adfc83dbd0f39a98bc91a228747cf56d4727b903c25');
INSERT INTO "dp_journal" VALUES(8,'2026-11-22T23:49:08.735+00:00','officer','marked','f','60938ce19cd84ed08b12ba59dc0c8290','95e4125802034b7b93e986907ee70c5c','{"account": null, "entries": [{"account": "f", "cost": 12519, "delta": 0, "events": "[{\"kind\": \"subsampled_gaussian\", \"noise_multiplier\": 20.0, \"sample_rate\": 0.01, \"steps\": 10}]", "id": "95e4125802034b7b93e986907ee70c5c", "key": null, "mechanism": "training", "position": 0, "release_id": "60938ce19cd84ed08b12ba59dc0c8290", "settled_at": null, "started_at": "2026-11-22T23:49:08.320+00:00", "state": "started", "steps_started": 4}], "release": null}','cb53e55f241d22170f134adfc83dbd0f39a98bc91a228747cf56d4727b903c25','0b0ef2cad46c08f7cc5d26f66820e4802bd024ffab6fed45ae7542971dfcffea');
INSERT INTO "dp_journal" VALUES(9,'2026-11-22T23:49:08.928+00:00','officer','reserved','f','fbc475fb407a41738932c5201c234e07',NULL,'{"account": null, "entries": [], "release": {"account": "f", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-06, "ended_at": null, "epsilon": 0.5, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "fbc475fb407a41738932c5201c234e07", "key": "voided", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:08.851+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": null, "state": "reserved", "table": "t", "who": "officer", "why": ""}}','0b0ef2cad46c08f7cc5d26f66820e4802bd024ffab6fed45ae7542971dfcffea','24e29769a925452eb544b2f09195c973946f8091cda09cb6e8c70eefc049be06');
INSERT INTO "dp_journal" VALUES(10,'2026-11-22T23:49:09.052+00:00','officer','voided','f','fbc475fb407a41738932c5201c234e07',NULL,'{"account": null, "entries": [], "release": {"account": "f", "blocks": "[]", "charged_cost": 0, "charged_delta": 0, "code_version": "v", "delta": 1e-06, "ended_at": "2026-11-22T23:49:09.008+00:00", "epsilon": 0.5, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "fbc475fb407a41738932c5201c234e07", "key": "voided", "order": 10.0, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:08.851+00:00", "reserved_cost": 77011299, "reserved_delta": 0, "run_id": "r", "started_at": null, "state": "voided", "table": "t", "who": "officer", "why": "not needed"}}','24e29769a925452eb544b2f09195c973946f8091cda09cb6e8c70eefc049be06','ddabb8582b1a0a317b049df2fca514bdd0cd489c5a74be05f5b8b8630e48ad6f');
INSERT INTO "dp_journal" VALUES(11,'2026-11-22T23:49:09.580+00:00','officer','planned','f',NULL,NULL,'{"account": null, "entries": [], "note": {"who": "A. Officer", "why": "why"}, "plan": {"account": "f", "cost": 37555, "cost_delta": 0, "declared_at": "2026-11-22T23:49:09.165+00:00", "delta": 1e-05, "epsilon": 0.006407951131214662, "events": "[{\"kind\": \"subsampled_gaussian\", \"noise_multiplier\": 20.0, \"sample_rate\": 0.01, \"steps\": 10}]", "id": "fc69d77e764c440c9f08b8510694a104", "name": "weekly", "relation": "add-remove", "takes": "renyi", "times": 3, "used": 0, "who": "A. Officer", "why": "why"}, "release": null}','ddabb8582b1a0a317b049df2fca514bdd0cd489c5a74be05f5b8b8630e48ad6f','7e7fa574dbacc996f682515e0e5a44dc450129ec2826c4dec3343dbd50af0180');
INSERT INTO "dp_journal" VALUES(12,'2026-11-22T23:49:15.127+00:00','officer','reserved','f','2f2329789a7d4d8687b70a5c958453e0',NULL,'{"account": null, "entries": [], "plan": {"account": "f", "cost": 37555, "cost_delta": 0, "declared_at": "2026-11-22T23:49:09.165+00:00", "delta": 1e-05, "epsilon": 0.006407951131214662, "events": "[{\"kind\": \"subsampled_gaussian\", \"noise_multiplier\": 20.0, \"sample_rate\": 0.01, \"steps\": 10}]", "id": "fc69d77e764c440c9f08b8510694a104", "name": "weekly", "relation": "add-remove", "takes": "renyi", "times": 3, "used": 1, "who": "A. Officer", "why": "why"}, "release": {"account": "f", "blocks": "[]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-05, "ended_at": null, "epsilon": 0.00341411975355502, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "2f2329789a7d4d8687b70a5c958453e0", "key": "use", "order": null, "own_delta": 0.0, "plan": "fc69d77e764c440c9f08b8510694a104", "relation": "add-remove", "reserved_at": "2026-11-22T23:49:15.094+00:00", "reserved_cost": 0, "reserved_delta": 0, "run_id": "r", "started_at": null, "state": "reserved", "table": "t", "who": "officer", "why": ""}}','7e7fa574dbacc996f682515e0e5a44dc450129ec2826c4dec3343dbd50af0180','09990ff803c9d967ac8f1f765c9286264852efa4b9c6f77dd677d7b7f1b284a1');
INSERT INTO "dp_journal" VALUES(13,'2026-11-22T23:49:15.231+00:00','officer','reserved','b','e51a35fb022b41b09162306a07c6b9f4',NULL,'{"account": null, "entries": [], "release": {"account": "b", "blocks": "[\"jan\"]", "charged_cost": null, "charged_delta": null, "code_version": "v", "delta": 1e-06, "ended_at": null, "epsilon": 0.1, "final_delta": null, "final_epsilon": null, "fingerprint": null, "id": "e51a35fb022b41b09162306a07c6b9f4", "key": "block", "order": null, "own_delta": 0.0, "plan": null, "relation": "add-remove", "reserved_at": "2026-11-22T23:49:15.182+00:00", "reserved_cost": 100000000, "reserved_delta": 1000000000000, "run_id": "r", "started_at": null, "state": "reserved", "table": "t", "who": "officer", "why": ""}}','09990ff803c9d967ac8f1f765c9286264852efa4b9c6f77dd677d7b7f1b284a1','0c37ada4b61399acc2a2b512d3437d6a3f7c0437c070b8f54e522cfb11da55bf');
INSERT INTO "dp_journal" VALUES(14,'2026-11-22T23:49:15.316+00:00','officer','raised','f',NULL,NULL,'{"account": {"cost_limit": 2576290108, "delta": 1e-05, "delta_limit": 500000000000, "epsilon": 3.5, "max_rows": 1, "name": "f", "opened_at": "2026-11-22T23:49:06.734+00:00", "order": 10.0, "relation": "add-remove", "rule": "filter", "unit": "row", "unit_in_one_block": false, "who": "officer", "why": ""}, "entries": [], "note": {"who": "A. Officer", "why": "why"}, "release": null}','0c37ada4b61399acc2a2b512d3437d6a3f7c0437c070b8f54e522cfb11da55bf','3cab9fb2535977feb73fe43866e6d2eae442397bc38a993c0bd2d610b42b65c2');
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
	PRIMARY KEY (id), 
	CONSTRAINT dp_plan_once UNIQUE (account, name), 
	FOREIGN KEY(account) REFERENCES dp_account (name)
);
INSERT INTO "dp_plan" VALUES('fc69d77e764c440c9f08b8510694a104','f','weekly','[{"kind": "subsampled_gaussian", "noise_multiplier": 20.0, "sample_rate": 0.01, "steps": 10}]',3,1,'renyi',6.40795113121466180378e-03,1.0e-05,37555,0,'add-remove','2026-11-22T23:49:09.165+00:00','A. Officer','why');
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
INSERT INTO "dp_release" VALUES('c01b2e6eeb934ef2b35653cc33095ce3','f','settled','t','r','v',0.5,1.0e-06,0.0,10.0,77011299,0,'settled',1388889,0,5.83482738596812627873e-02,1.0e-06,NULL,'officer','','2026-11-22T23:49:07.572+00:00','2026-11-22T23:49:07.802+00:00','2026-11-22T23:49:07.975+00:00',NULL,'[]','add-remove');
INSERT INTO "dp_release" VALUES('60938ce19cd84ed08b12ba59dc0c8290','f','open','t','r','v',0.5,1.0e-06,0.0,10.0,77011299,0,'started',NULL,NULL,NULL,NULL,NULL,'officer','','2026-11-22T23:49:08.179+00:00','2026-11-22T23:49:08.607+00:00',NULL,NULL,'[]','add-remove');
INSERT INTO "dp_release" VALUES('fbc475fb407a41738932c5201c234e07','f','voided','t','r','v',0.5,1.0e-06,0.0,10.0,77011299,0,'voided',0,0,NULL,NULL,NULL,'officer','not needed','2026-11-22T23:49:08.851+00:00',NULL,'2026-11-22T23:49:09.008+00:00',NULL,'[]','add-remove');
INSERT INTO "dp_release" VALUES('2f2329789a7d4d8687b70a5c958453e0','f','use','t','r','v',0.00341411975355502,1.0e-05,0.0,NULL,0,0,'reserved',NULL,NULL,NULL,NULL,NULL,'officer','','2026-11-22T23:49:15.094+00:00',NULL,NULL,'fc69d77e764c440c9f08b8510694a104','[]','add-remove');
INSERT INTO "dp_release" VALUES('e51a35fb022b41b09162306a07c6b9f4','b','block','t','r','v',0.1,1.0e-06,0.0,NULL,100000000,1000000000000,'reserved',NULL,NULL,NULL,NULL,NULL,'officer','','2026-11-22T23:49:15.182+00:00',NULL,NULL,NULL,'["jan"]','add-remove');
CREATE TABLE dp_store (
	id INTEGER NOT NULL, 
	schema_version INTEGER NOT NULL, 
	length BIGINT NOT NULL, 
	head VARCHAR(64) NOT NULL, 
	key_id VARCHAR(64) NOT NULL, 
	"key" VARCHAR(64), 
	PRIMARY KEY (id)
);
INSERT INTO "dp_store" VALUES(1,2,14,'3cab9fb2535977feb73fe43866e6d2eae442397bc38a993c0bd2d610b42b65c2','8d08c0715f6f234a6e2aea96c4b0863ab8cd5732ff9fe542d4cfeabf44f3eb29',NULL);
CREATE INDEX ix_dp_journal_account ON dp_journal (account);
CREATE INDEX ix_dp_release_account ON dp_release (account);
CREATE INDEX dp_release_source ON dp_release (fingerprint);
CREATE INDEX ix_dp_entry_account ON dp_entry (account);
COMMIT;
