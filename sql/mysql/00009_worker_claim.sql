-- Table shardid_worker_claim: one row per process that issues snowflakes, with the
-- registry of its worker ID. Registries know nothing of each other; this table keeps
-- their instances apart.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_worker_claim (
  token     varchar(64)  NOT NULL COMMENT 'of the process',
  registry  varchar(255) NOT NULL COMMENT 'identity of the registry that gave the worker ID',
  worker_id int          NOT NULL,
  until_ms  bigint       NOT NULL COMMENT 'IDs of an earlier time may be issued, Unix ms',
  PRIMARY KEY (token)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO shardid_lock (name) VALUES ('shardid_worker_claim');
