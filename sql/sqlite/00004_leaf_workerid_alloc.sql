-- Table leaf_workerid_alloc: one row per ip:port, its worker ID is id mod 1024.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
  id             INTEGER PRIMARY KEY, -- 1..1024, 1024 is worker ID 0
  ip             TEXT,
  port           TEXT,
  ip_port        TEXT    NOT NULL UNIQUE,
  max_timestamp  INTEGER, -- last report, Unix ms by the clock of the instance
  create_time    TEXT,
  update_time    TEXT, -- set by every UPDATE of shardid
  identity       TEXT    NOT NULL DEFAULT '', -- of the data folder of the holder
  token          TEXT    NOT NULL DEFAULT '', -- of the process that holds the lease, empty means none
  reserved_until INTEGER NOT NULL DEFAULT 0, -- IDs up to this time may have been issued, Unix ms
  expires_at     INTEGER NOT NULL DEFAULT 0, -- from then on another may follow, Unix ms
  claimed_at     INTEGER NOT NULL DEFAULT 0, -- when the lease was got, 0 once it was renewed, Unix ms
  seen_at        INTEGER NOT NULL DEFAULT 0, -- last report, Unix ms by the clock of the process
  own_timestamp  INTEGER NOT NULL DEFAULT 0, -- max_timestamp as shardid wrote it
  made_at        INTEGER NOT NULL DEFAULT 0 -- when shardid made the row, Unix ms
) STRICT;
