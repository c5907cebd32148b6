-- Sequences; see sql/mysql/00016_sequence.sql.
--
-- +goose Up

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

-- How far the keys had come in the process that was stopped last; taken out before it is used.
CREATE TABLE IF NOT EXISTS shardid_sequence_kept (
  server  TEXT    NOT NULL,
  space   TEXT    NOT NULL,
  section INTEGER NOT NULL,
  term    INTEGER NOT NULL,
  base    INTEGER NOT NULL,
  bound   INTEGER NOT NULL,
  key     BLOB, -- NULL: the section itself
  value   INTEGER NOT NULL
) STRICT;
