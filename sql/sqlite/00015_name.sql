-- Worker IDs as a service; see sql/mysql/00015_name.sql.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_name (
  name        TEXT    NOT NULL PRIMARY KEY,
  epoch_ms    INTEGER NOT NULL, -- Unix ms
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
