-- The schema of shardid for SQLite, which the embedded store uses: the baseline, at version 17,
-- that of shardid 0.3, whose files it leaves as they are. What the tables and columns mean is
-- said in ../mysql/00017_schema.sql. A file is one server for ever, so that most columns of
-- shardid_deployment stay empty, and shardid_replica and shardid_change, too.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS id_alloc (
  app_id       INTEGER NOT NULL,
  app_name     TEXT    NOT NULL,
  max_id       INTEGER NOT NULL DEFAULT 0,
  shard_id     INTEGER NOT NULL,
  step         INTEGER NOT NULL DEFAULT 1000,
  description  TEXT,
  create_time  TEXT DEFAULT CURRENT_TIMESTAMP,
  update_time  TEXT DEFAULT CURRENT_TIMESTAMP, -- set by every UPDATE of shardid
  max_limit_id INTEGER NOT NULL DEFAULT 0,
  limit_policy TEXT    NOT NULL DEFAULT 'reject',
  current_step INTEGER NOT NULL DEFAULT 0,
  last_max_id  INTEGER NOT NULL DEFAULT 0,
  doubt        INTEGER NOT NULL DEFAULT 0,
  taken_at     INTEGER NOT NULL DEFAULT 0,
  tokens       INTEGER NOT NULL DEFAULT 0,
  max_rate     INTEGER NOT NULL DEFAULT 0,
  last_change  INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (app_id, shard_id),
  CONSTRAINT id_alloc_app_id_is_0_to_255 CHECK (app_id BETWEEN 0 AND 255),
  CONSTRAINT id_alloc_shard_id_is_0_to_63 CHECK (shard_id BETWEEN 0 AND 63),
  CONSTRAINT id_alloc_limit_policy_is_known CHECK (limit_policy IN ('reject', 'wrap'))
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     TEXT    NOT NULL,
  max_id      INTEGER NOT NULL DEFAULT 1,
  step        INTEGER NOT NULL,
  description TEXT,
  update_time TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP, -- set by every UPDATE of shardid
  doubt       INTEGER NOT NULL DEFAULT 0,
  tokens      INTEGER NOT NULL DEFAULT 0,
  taken_at    INTEGER NOT NULL DEFAULT 0,
  max_rate    INTEGER NOT NULL DEFAULT 0,
  own_max_id  INTEGER NOT NULL DEFAULT 0,
  last_change INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (biz_tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS id_alloc_deleted (
  app_id     INTEGER NOT NULL,
  shard_id   INTEGER NOT NULL,
  max_id     INTEGER NOT NULL,
  deleted_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (app_id, shard_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS leaf_alloc_deleted (
  biz_tag    TEXT    NOT NULL,
  max_id     INTEGER NOT NULL,
  deleted_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS shardid_number (
  biz_tag    TEXT NOT NULL PRIMARY KEY,
  pattern    TEXT NOT NULL,
  reset_by   TEXT NOT NULL,
  zone       TEXT NOT NULL,
  overflow   TEXT NOT NULL,
  created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_scramble (
  app_id     INTEGER NOT NULL PRIMARY KEY,
  secret_sum TEXT    NOT NULL,
  created_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

CREATE TABLE IF NOT EXISTS id_layout (
  kind        TEXT NOT NULL,
  layout      TEXT NOT NULL,
  recorded_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), -- UTC
  PRIMARY KEY (kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
  id             INTEGER PRIMARY KEY,
  ip             TEXT,
  port           TEXT,
  ip_port        TEXT NOT NULL UNIQUE,
  max_timestamp  INTEGER,
  create_time    TEXT,
  update_time    TEXT, -- set by every UPDATE of shardid
  identity       TEXT NOT NULL DEFAULT '',
  token          TEXT NOT NULL DEFAULT '',
  reserved_until INTEGER NOT NULL DEFAULT 0,
  expires_at     INTEGER NOT NULL DEFAULT 0,
  claimed_at     INTEGER NOT NULL DEFAULT 0,
  seen_at        INTEGER NOT NULL DEFAULT 0,
  own_timestamp  INTEGER NOT NULL DEFAULT 0,
  made_at        INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE IF NOT EXISTS WORKER_NODE (
  ID          INTEGER PRIMARY KEY AUTOINCREMENT,
  HOST_NAME   TEXT    NOT NULL,
  PORT        TEXT    NOT NULL,
  TYPE        INTEGER NOT NULL,
  LAUNCH_DATE TEXT    NOT NULL,
  MODIFIED    TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP, -- set by every UPDATE of shardid
  CREATED     TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  TOKEN       TEXT UNIQUE,
  USED_UNTIL  INTEGER NOT NULL DEFAULT 0,
  USED_BEFORE INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX IF NOT EXISTS SHARDID_USED_UNTIL ON WORKER_NODE (USED_UNTIL);

CREATE TABLE IF NOT EXISTS shardid_worker_claim (
  token     TEXT PRIMARY KEY,
  registry  TEXT    NOT NULL,
  worker_id INTEGER NOT NULL,
  until_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_deployment (
  only_row        INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
  deployment      TEXT    NOT NULL,
  region          TEXT    NOT NULL DEFAULT '',
  scramble_secret TEXT    NOT NULL DEFAULT '',
  server          TEXT    NOT NULL DEFAULT '',
  booted_at       INTEGER NOT NULL DEFAULT 0,
  server_life     TEXT    NOT NULL DEFAULT '',
  since           INTEGER NOT NULL DEFAULT 0,
  changes         INTEGER NOT NULL DEFAULT 0,
  beat_at         INTEGER NOT NULL DEFAULT 0,
  oldest_copy     INTEGER NOT NULL DEFAULT 0,
  jump_from       INTEGER NOT NULL DEFAULT 0,
  list_rate       INTEGER NOT NULL DEFAULT 0,
  tag_rate        INTEGER NOT NULL DEFAULT 0,
  rates_from      INTEGER NOT NULL DEFAULT 0,
  witness         TEXT    NOT NULL DEFAULT '',
  witness_place   TEXT    NOT NULL DEFAULT '',
  node_last       INTEGER NOT NULL DEFAULT 0,
  node_lost       INTEGER NOT NULL DEFAULT 0,
  node_doubt      INTEGER NOT NULL DEFAULT 0,
  node_change     INTEGER NOT NULL DEFAULT 0,
  node_tokens     INTEGER NOT NULL DEFAULT 0,
  node_at         INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT OR IGNORE INTO shardid_deployment (only_row, deployment) VALUES (1, lower(hex(randomblob(16))));

CREATE TABLE IF NOT EXISTS shardid_replica (
  id        TEXT    NOT NULL PRIMARY KEY,
  uses      TEXT    NOT NULL,
  holds     TEXT    NOT NULL,
  list_rate INTEGER NOT NULL,
  tag_rate  INTEGER NOT NULL,
  seen_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_change (
  number    INTEGER NOT NULL PRIMARY KEY,
  noted_at  INTEGER NOT NULL,
  known_at  INTEGER NOT NULL,
  slack     INTEGER NOT NULL,
  reach_at  INTEGER NOT NULL,
  again     INTEGER NOT NULL,
  list_rate INTEGER NOT NULL,
  tag_rate  INTEGER NOT NULL,
  witness   TEXT    NOT NULL,
  settled   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_name (
  name        TEXT    NOT NULL PRIMARY KEY,
  epoch_ms    INTEGER NOT NULL,
  worker_bits INTEGER NOT NULL,
  seq_bits    INTEGER NOT NULL,
  hold_ms     INTEGER NOT NULL,
  was_hold_ms INTEGER NOT NULL DEFAULT 0,
  set_at      INTEGER NOT NULL DEFAULT 0,
  low_hold_ms INTEGER NOT NULL DEFAULT 0,
  low_until   INTEGER NOT NULL DEFAULT 0,
  made_at     INTEGER NOT NULL,
  deleted_at  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_lease (
  name       TEXT    NOT NULL,
  worker_id  INTEGER NOT NULL,
  instance   TEXT    NOT NULL,
  secret     TEXT    NOT NULL,
  after_ms   INTEGER NOT NULL,
  until_ms   INTEGER NOT NULL,
  granted_at INTEGER NOT NULL,
  renewed_at INTEGER NOT NULL,
  PRIMARY KEY (name, worker_id)
) STRICT;

CREATE INDEX IF NOT EXISTS shardid_lease_instance ON shardid_lease (name, instance);
CREATE INDEX IF NOT EXISTS shardid_lease_until ON shardid_lease (name, until_ms);

CREATE TABLE IF NOT EXISTS shardid_sequence (
  name     TEXT    NOT NULL PRIMARY KEY,
  sections INTEGER NOT NULL,
  step     INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_section (
  space       TEXT    NOT NULL,
  section     INTEGER NOT NULL,
  max_id      INTEGER NOT NULL,
  doubt       INTEGER NOT NULL DEFAULT 0,
  last_change INTEGER NOT NULL DEFAULT 0,
  tokens      INTEGER NOT NULL DEFAULT 0,
  taken_at    INTEGER NOT NULL DEFAULT 0,
  life        TEXT    NOT NULL,
  term        INTEGER NOT NULL DEFAULT 0,
  open        INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (space, section)
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_fence (
  server     TEXT    NOT NULL PRIMARY KEY,
  number     INTEGER NOT NULL,
  place      TEXT    NOT NULL,
  renewed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_sequence_deleted (
  name       TEXT    NOT NULL PRIMARY KEY,
  max_id     INTEGER NOT NULL,
  deleted_at INTEGER NOT NULL
) STRICT;
