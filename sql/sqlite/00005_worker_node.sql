-- Table WORKER_NODE: one row per start of an instance in the UID mode, its ID is
-- the worker ID. As Baidu has it.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS WORKER_NODE (
  ID          INTEGER PRIMARY KEY AUTOINCREMENT,
  HOST_NAME   TEXT    NOT NULL,
  PORT        TEXT    NOT NULL,
  TYPE        INTEGER NOT NULL, -- 1 container, 2 machine
  LAUNCH_DATE TEXT    NOT NULL,
  MODIFIED    TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP, -- set by every UPDATE of shardid
  CREATED     TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  TOKEN       TEXT    UNIQUE, -- of the start that has the worker ID
  USED_UNTIL  INTEGER NOT NULL DEFAULT 0, -- UIDs up to this Unix s may have been issued, 0 means nobody knows
  USED_BEFORE INTEGER NOT NULL DEFAULT 0 -- USED_UNTIL of the start that had the worker ID before
) STRICT;

CREATE INDEX IF NOT EXISTS SHARDID_USED_UNTIL ON WORKER_NODE (USED_UNTIL);
