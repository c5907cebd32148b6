-- Table shardid_scramble: the apps whose IDs show neither order nor volume. A row is made
-- with its app and never removed: an app that comes back under its ID is scrambled again.
-- The secret that all keys are made of belongs to the deployment and never changes, so a
-- copy of the database that lacks an app has the key for it.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_scramble (
  app_id     int       NOT NULL COMMENT '0..255',
  secret_sum varchar(64) NOT NULL COMMENT 'SHA-256 of the secret, in hex: with another one IDs would repeat',
  created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (app_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @shardid_sql = (SELECT IF(COUNT(*) = 0,
    'ALTER TABLE shardid_deployment ADD COLUMN scramble_secret varchar(64) NOT NULL DEFAULT '''' COMMENT ''made once: keys of scrambled apps are made of it''',
    'DO 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'shardid_deployment' AND column_name = 'scramble_secret');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
