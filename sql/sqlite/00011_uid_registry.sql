-- Tables for uid.worker: registry; see sql/mysql/00011_uid_registry.sql.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_uid_workerid_alloc (
  id             INTEGER PRIMARY KEY, -- 1..1024, 1024 is worker ID 0
  ip             TEXT,
  port           TEXT,
  ip_port        TEXT    NOT NULL UNIQUE,
  max_timestamp  INTEGER, -- last report, Unix ms by the clock of the instance
  create_time    TEXT,
  update_time    TEXT, -- set by every UPDATE of shardid
  identity       TEXT    NOT NULL DEFAULT '', -- of the data folder of the holder
  token          TEXT    NOT NULL DEFAULT '', -- of the process that holds the lease, empty means none
  reserved_until INTEGER NOT NULL DEFAULT 0, -- the holder may use it up to this time, Unix ms
  expires_at     INTEGER NOT NULL DEFAULT 0, -- from then on another may follow, Unix ms
  claimed_at     INTEGER NOT NULL DEFAULT 0, -- when the lease was got, 0 once it was renewed, Unix ms
  seen_at        INTEGER NOT NULL DEFAULT 0, -- last report, Unix ms by the clock of the process
  own_timestamp  INTEGER NOT NULL DEFAULT 0, -- max_timestamp as shardid wrote it
  made_at        INTEGER NOT NULL DEFAULT 0 -- when the row was made, Unix ms
) STRICT;

CREATE TABLE IF NOT EXISTS shardid_uid_place (
  registry  TEXT    NOT NULL, -- kind and name of the registry
  worker_id INTEGER NOT NULL, -- what the registry gave, 0..1023
  node_id   INTEGER NOT NULL, -- ID of the row of WORKER_NODE
  token     TEXT    NOT NULL, -- TOKEN of that row when this was stored
  since     INTEGER NOT NULL, -- since of shardid_deployment when this was stored
  PRIMARY KEY (registry, worker_id)
) STRICT;
