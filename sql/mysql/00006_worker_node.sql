-- Table WORKER_NODE: one row per start of an instance in the UID mode, its ID is
-- the worker ID. Baidu's own table.
--
-- Runs any number of times. A table made with Baidu's DDL is upgraded in place
-- and keeps its rows. Every column of ours has a default, so that a Java program
-- can go on using it.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS WORKER_NODE (
  ID          bigint      NOT NULL AUTO_INCREMENT,
  HOST_NAME   varchar(64) NOT NULL,
  PORT        varchar(64) NOT NULL,
  TYPE        int         NOT NULL COMMENT '1 container, 2 machine',
  LAUNCH_DATE date        NOT NULL,
  MODIFIED    timestamp   NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  CREATED     timestamp   NOT NULL DEFAULT CURRENT_TIMESTAMP,
  TOKEN       varchar(64) CHARACTER SET utf8mb4 DEFAULT NULL COMMENT 'of the start that has the worker ID',
  USED_UNTIL  bigint      NOT NULL DEFAULT 0 COMMENT 'UIDs up to this Unix s may have been issued, 0: nobody knows',
  USED_BEFORE bigint      NOT NULL DEFAULT 0 COMMENT 'USED_UNTIL of the start that had the worker ID before',
  PRIMARY KEY (ID),
  UNIQUE KEY SHARDID_TOKEN (TOKEN),
  KEY SHARDID_USED_UNTIL (USED_UNTIL)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- What follows changes nothing on a table that is as above. On Baidu's the
-- missing parts are put into one ALTER, without the strict mode that refuses
-- any ALTER of a table whose timestamps default to zero.

SET @shardid_columns = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'TOKEN') = 0, 'ADD COLUMN TOKEN varchar(64) CHARACTER SET utf8mb4 DEFAULT NULL', NULL),
    IF(SUM(column_name = 'USED_UNTIL') = 0, 'ADD COLUMN USED_UNTIL bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'USED_BEFORE') = 0, 'ADD COLUMN USED_BEFORE bigint NOT NULL DEFAULT 0', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'WORKER_NODE');

SET @shardid_keys = (SELECT CONCAT_WS(', ',
    IF(COALESCE(SUM(index_name = 'SHARDID_TOKEN'), 0) > 0, NULL, 'ADD UNIQUE KEY SHARDID_TOKEN (TOKEN)'),
    IF(COALESCE(SUM(index_name = 'SHARDID_USED_UNTIL'), 0) > 0, NULL, 'ADD KEY SHARDID_USED_UNTIL (USED_UNTIL)'))
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'WORKER_NODE');

-- Row locks need InnoDB.
SET @shardid_table = (SELECT IF(engine = 'InnoDB', NULL, 'ENGINE=InnoDB')
  FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'WORKER_NODE');

SET @shardid_sql = CONCAT_WS(', ', NULLIF(@shardid_columns, ''), NULLIF(@shardid_keys, ''), @shardid_table);
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE WORKER_NODE ', @shardid_sql));
SET @shardid_mode = @@SESSION.sql_mode;
SET SESSION sql_mode = '';
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
SET SESSION sql_mode = @shardid_mode;
