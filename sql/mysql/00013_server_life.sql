-- Which life of which MariaDB server wrote last, where its name and the second of its
-- start do not tell: containers share both.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

SET @shardid_sql = (SELECT IF(COUNT(*) = 0,
    'ALTER TABLE shardid_deployment ADD COLUMN server_life varchar(64) NOT NULL DEFAULT '''' COMMENT ''random, of the start of that server; its machine; its number. Empty: not known''',
    'DO 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'shardid_deployment' AND column_name = 'server_life');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
