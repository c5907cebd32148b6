-- Table shardid_worker_claim: one row per process that issues snowflakes, with the
-- registry of its worker ID; see sql/mysql/00009_worker_claim.sql.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_worker_claim (
  token     TEXT    PRIMARY KEY, -- of the process
  registry  TEXT    NOT NULL, -- identity of the registry that gave the worker ID
  worker_id INTEGER NOT NULL,
  until_ms  INTEGER NOT NULL -- IDs of an earlier time may be issued, Unix ms
) STRICT;
