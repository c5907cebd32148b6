-- Table shardid_scramble and the deployment's secret, as in MySQL; see
-- sql/mysql/00010_scramble.sql.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_scramble (
  app_id     INTEGER NOT NULL PRIMARY KEY, -- 0..255
  secret_sum TEXT    NOT NULL, -- SHA-256 of the secret, in hex
  created_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

ALTER TABLE shardid_deployment ADD COLUMN scramble_secret TEXT NOT NULL DEFAULT '';

UPDATE shardid_deployment SET scramble_secret = lower(hex(randomblob(32)));
