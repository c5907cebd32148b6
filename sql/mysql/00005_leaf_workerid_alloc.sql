-- Table leaf_workerid_alloc: one row per ip:port, its worker ID is id mod 1024.
--
-- Runs any number of times. A table made by the fork of Leaf that brought it in
-- is upgraded in place and keeps its rows. Every column of ours has a default,
-- so that the Java program can go on using it.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
  id             bigint       NOT NULL AUTO_INCREMENT COMMENT '1..1024, 1024 is worker ID 0',
  ip             varchar(127) DEFAULT NULL,
  port           varchar(127) DEFAULT NULL,
  ip_port        varchar(127) NOT NULL,
  max_timestamp  bigint       DEFAULT NULL COMMENT 'last report, Unix ms by the clock of the instance',
  create_time    timestamp    NULL DEFAULT NULL,
  update_time    timestamp    NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  identity       varchar(64)  CHARACTER SET utf8mb4 NOT NULL DEFAULT '' COMMENT 'of the data folder of the holder',
  token          varchar(64)  CHARACTER SET utf8mb4 NOT NULL DEFAULT '' COMMENT 'of the process that holds the lease, empty: none',
  reserved_until bigint       NOT NULL DEFAULT 0 COMMENT 'IDs up to this time may have been issued, Unix ms',
  expires_at     bigint       NOT NULL DEFAULT 0 COMMENT 'from then on another may follow, Unix ms',
  claimed_at     bigint       NOT NULL DEFAULT 0 COMMENT 'when the lease was got, 0 once it was renewed, Unix ms',
  seen_at        bigint       NOT NULL DEFAULT 0 COMMENT 'last report, Unix ms by the clock of the server',
  own_timestamp  bigint       NOT NULL DEFAULT 0 COMMENT 'max_timestamp as shardid wrote it',
  made_at        bigint       NOT NULL DEFAULT 0 COMMENT 'when shardid made the row, Unix ms',
  PRIMARY KEY (id),
  UNIQUE KEY idx_ipport (ip_port)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- What follows changes nothing on a table that is as above. On another one the
-- missing parts are put into one ALTER.

SET @shardid_columns = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'create_time') = 0, 'ADD COLUMN create_time timestamp NULL DEFAULT NULL', NULL),
    IF(SUM(column_name = 'update_time') = 0,
      'ADD COLUMN update_time timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP', NULL),
    IF(SUM(column_name = 'identity') = 0,
      'ADD COLUMN identity varchar(64) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''''', NULL),
    IF(SUM(column_name = 'token') = 0,
      'ADD COLUMN token varchar(64) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''''', NULL),
    IF(SUM(column_name = 'reserved_until') = 0, 'ADD COLUMN reserved_until bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'expires_at') = 0, 'ADD COLUMN expires_at bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'claimed_at') = 0, 'ADD COLUMN claimed_at bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'seen_at') = 0, 'ADD COLUMN seen_at bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'own_timestamp') = 0, 'ADD COLUMN own_timestamp bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'made_at') = 0, 'ADD COLUMN made_at bigint NOT NULL DEFAULT 0', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'leaf_workerid_alloc');

SET @shardid_key = (SELECT IF(COUNT(*) > 0, NULL, 'ADD UNIQUE KEY idx_ipport (ip_port)') FROM (
    SELECT index_name FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'leaf_workerid_alloc' AND non_unique = 0
    GROUP BY index_name HAVING GROUP_CONCAT(LOWER(column_name)) = 'ip_port') AS found);

-- Row locks need InnoDB.
SET @shardid_table = (SELECT IF(engine = 'InnoDB', NULL, 'ENGINE=InnoDB')
  FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'leaf_workerid_alloc');

SET @shardid_sql = CONCAT_WS(', ', NULLIF(@shardid_columns, ''), @shardid_key, @shardid_table);
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE leaf_workerid_alloc ', @shardid_sql));
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

-- One row per table whose free IDs are given out one at a time. The rows are
-- locked and never changed.
CREATE TABLE IF NOT EXISTS shardid_lock (
  name varchar(64) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO shardid_lock (name) VALUES ('leaf_workerid_alloc'), ('WORKER_NODE');
