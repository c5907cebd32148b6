-- Who vouches for counters, as in MySQL; see sql/mysql/00014_witness.sql. A file is one
-- server for ever, so nothing of this is used.
--
-- +goose Up

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

ALTER TABLE shardid_deployment ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shardid_deployment ADD COLUMN witness TEXT NOT NULL DEFAULT '';
ALTER TABLE shardid_deployment ADD COLUMN witness_place TEXT NOT NULL DEFAULT '';
ALTER TABLE shardid_deployment ADD COLUMN node_change INTEGER NOT NULL DEFAULT 0;
ALTER TABLE shardid_deployment ADD COLUMN node_lost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE id_alloc ADD COLUMN last_change INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leaf_alloc ADD COLUMN last_change INTEGER NOT NULL DEFAULT 0;
