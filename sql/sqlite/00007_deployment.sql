-- Table shardid_deployment: one row, as in MySQL. A file is one server for ever, so
-- most of its columns stay 0; see sql/mysql/00008_deployment.sql.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_deployment (
  only_row    INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
  deployment  TEXT    NOT NULL, -- random, made once; Redis keys carry it
  server      TEXT    NOT NULL DEFAULT '',
  booted_at   INTEGER NOT NULL DEFAULT 0,
  since       INTEGER NOT NULL DEFAULT 0,
  beat_at     INTEGER NOT NULL DEFAULT 0,
  oldest_copy INTEGER NOT NULL DEFAULT 0,
  jump_from   INTEGER NOT NULL DEFAULT 0,
  list_rate   INTEGER NOT NULL DEFAULT 0,
  tag_rate    INTEGER NOT NULL DEFAULT 0,
  rates_from  INTEGER NOT NULL DEFAULT 0,
  node_last   INTEGER NOT NULL DEFAULT 0,
  node_doubt  INTEGER NOT NULL DEFAULT 0,
  node_tokens INTEGER NOT NULL DEFAULT 0,
  node_at     INTEGER NOT NULL DEFAULT 0,
  node_life   TEXT    NOT NULL DEFAULT ''
) STRICT;

INSERT OR IGNORE INTO shardid_deployment (only_row, deployment) VALUES (1, lower(hex(randomblob(16))));

ALTER TABLE id_alloc ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE id_alloc ADD COLUMN taken_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE id_alloc ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE id_alloc ADD COLUMN max_rate INTEGER NOT NULL DEFAULT 0;
ALTER TABLE id_alloc ADD COLUMN rate_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN taken_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN max_rate INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN rate_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN own_max_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN mark_life TEXT NOT NULL DEFAULT '';
