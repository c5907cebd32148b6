-- Who vouches for counters of a database that went back: the witness, which the row of
-- shardid_deployment names; the replicas that hold it (shardid_replica); and the changes of
-- the database server (shardid_change), which rows account for as they are used.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_replica (
  id        varchar(64)  NOT NULL COMMENT 'random, of one process',
  uses      varchar(80)  NOT NULL COMMENT 'life of the Redis that it uses, empty: none',
  holds     varchar(120) NOT NULL COMMENT 'witness that it may let vouch, empty: none',
  list_rate bigint       NOT NULL COMMENT 'most indices a second of a list, as it is configured',
  tag_rate  bigint       NOT NULL COMMENT 'most IDs a second of a tag, as it is configured',
  seen_at   bigint       NOT NULL COMMENT 'last heard of, Unix ms',
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_change (
  number    bigint       NOT NULL COMMENT 'counts the changes of the server',
  noted_at  bigint       NOT NULL COMMENT 'Unix ms',
  known_at  bigint       NOT NULL COMMENT 'what was stored before is there, Unix ms',
  slack     bigint       NOT NULL COMMENT 'clocks may differ so much, ms',
  reach_at  bigint       NOT NULL COMMENT 'from when on jumps went that the database did not know of, Unix ms, 0: none',
  again     int          NOT NULL COMMENT '1: an earlier doubt accounts for slack',
  list_rate bigint       NOT NULL COMMENT 'most indices a second of a list',
  tag_rate  bigint       NOT NULL COMMENT 'most IDs a second of a tag',
  witness   varchar(120) NOT NULL COMMENT 'knows what rows lack, empty: nobody does',
  settled   int          NOT NULL DEFAULT 0 COMMENT '1: every row has what the witness knew',
  PRIMARY KEY (number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @shardid_sql = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'changes') = 0, 'ADD COLUMN changes bigint NOT NULL DEFAULT 0 COMMENT ''number of the last row of shardid_change''', NULL),
    IF(SUM(column_name = 'witness') = 0,
      'ADD COLUMN witness varchar(120) NOT NULL DEFAULT '''' COMMENT ''life of Redis that knows every number taken since it was named, and a random name''', NULL),
    IF(SUM(column_name = 'witness_place') = 0, 'ADD COLUMN witness_place varchar(255) NOT NULL DEFAULT '''' COMMENT ''where that Redis is reached''', NULL),
    IF(SUM(column_name = 'node_change') = 0, 'ADD COLUMN node_change bigint NOT NULL DEFAULT 0 COMMENT ''change that node_doubt accounts for''', NULL),
    IF(SUM(column_name = 'node_lost') = 0, 'ADD COLUMN node_lost bigint NOT NULL DEFAULT 0 COMMENT ''starts up to node_last that WORKER_NODE may lack''', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'shardid_deployment');
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE shardid_deployment ', @shardid_sql));
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

SET @shardid_sql = (SELECT IF(COUNT(*) = 0,
    'ALTER TABLE id_alloc ADD COLUMN last_change bigint NOT NULL DEFAULT 0 COMMENT ''change of the server that doubt accounts for''', 'DO 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'id_alloc' AND column_name = 'last_change');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

SET @shardid_sql = (SELECT IF(COUNT(*) = 0,
    'ALTER TABLE leaf_alloc ADD COLUMN last_change bigint NOT NULL DEFAULT 0 COMMENT ''change of the server that doubt accounts for''', 'DO 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc' AND column_name = 'last_change');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
