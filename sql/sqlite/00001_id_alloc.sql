-- Table id_alloc: one row per list (a shard of an app).
--
-- +goose Up

CREATE TABLE IF NOT EXISTS id_alloc (
  app_id       INTEGER NOT NULL, -- 0..255
  app_name     TEXT    NOT NULL,
  max_id       INTEGER NOT NULL DEFAULT 0, -- highest index handed out
  shard_id     INTEGER NOT NULL, -- 0..63
  step         INTEGER NOT NULL DEFAULT 1000, -- smallest segment, in indices
  description  TEXT,
  create_time  TEXT DEFAULT CURRENT_TIMESTAMP,
  update_time  TEXT DEFAULT CURRENT_TIMESTAMP, -- set by every UPDATE of shardid
  max_limit_id INTEGER NOT NULL DEFAULT 0, -- highest ID, 0 means none
  limit_policy TEXT    NOT NULL DEFAULT 'reject', -- reject or wrap
  current_step INTEGER NOT NULL DEFAULT 0, -- length of the last segment
  allocated_at INTEGER NOT NULL DEFAULT 0, -- Unix ms of the last allocation
  db_server    TEXT    NOT NULL DEFAULT '', -- server that stored the last segment; a file has none
  db_booted_at INTEGER NOT NULL DEFAULT 0, -- when that server had started, Unix s
  list_history TEXT    NOT NULL DEFAULT '', -- history of the list the segment was for
  last_max_id  INTEGER NOT NULL DEFAULT 0, -- max_id as that segment left it
  PRIMARY KEY (app_id, shard_id),
  CONSTRAINT id_alloc_app_id_is_0_to_255 CHECK (app_id BETWEEN 0 AND 255),
  CONSTRAINT id_alloc_shard_id_is_0_to_63 CHECK (shard_id BETWEEN 0 AND 63),
  CONSTRAINT id_alloc_limit_policy_is_known CHECK (limit_policy IN ('reject', 'wrap'))
) STRICT, WITHOUT ROWID;
