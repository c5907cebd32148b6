-- Table id_alloc: one row per list (a shard of an app).
--
-- Runs on MySQL 8.0.16+ and MariaDB 10.11+, through shardid migrate or by hand
-- (mysql db < file), any number of times. A table made with the original
-- article's DDL is upgraded in place and keeps its rows.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS id_alloc (
  app_id       int          NOT NULL COMMENT 'appId, 0..255',
  app_name     varchar(128) NOT NULL,
  max_id       bigint       NOT NULL DEFAULT 0 COMMENT 'highest index handed out',
  shard_id     int          NOT NULL COMMENT '0..63',
  step         int          NOT NULL DEFAULT 1000 COMMENT 'smallest segment, in indices',
  description  varchar(255) DEFAULT NULL,
  create_time  datetime     DEFAULT CURRENT_TIMESTAMP,
  update_time  datetime     DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  max_limit_id bigint       NOT NULL DEFAULT 0 COMMENT 'highest ID, 0: none',
  limit_policy varchar(8)   NOT NULL DEFAULT 'reject' COMMENT 'reject or wrap',
  current_step bigint       NOT NULL DEFAULT 0 COMMENT 'length of the last segment',
  allocated_at bigint       NOT NULL DEFAULT 0 COMMENT 'Unix ms of the last allocation',
  db_server    varchar(40)  NOT NULL DEFAULT '' COMMENT 'server that stored the last segment',
  db_booted_at bigint       NOT NULL DEFAULT 0 COMMENT 'when that server had started, Unix s',
  list_history varchar(64)  NOT NULL DEFAULT '' COMMENT 'history of the list the segment was for',
  last_max_id  bigint       NOT NULL DEFAULT 0 COMMENT 'max_id as that segment left it',
  PRIMARY KEY (app_id, shard_id),
  CONSTRAINT id_alloc_app_id_is_0_to_255 CHECK (app_id BETWEEN 0 AND 255),
  CONSTRAINT id_alloc_shard_id_is_0_to_63 CHECK (shard_id BETWEEN 0 AND 63),
  CONSTRAINT id_alloc_limit_policy_is_known CHECK (limit_policy IN ('reject', 'wrap'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- What follows changes nothing on a table that is as above. On an older table
-- the missing parts are put into one ALTER, so that it is upgraded whole or not
-- at all. First the NULLs that the columns will no longer hold.

SET @shardid_sql = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'id_alloc' AND column_name = 'max_limit_id' AND is_nullable = 'YES') = 1,
  'UPDATE id_alloc SET max_limit_id = 0 WHERE max_limit_id IS NULL', 'DO 0');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

SET @shardid_sql = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'id_alloc' AND column_name = 'step' AND is_nullable = 'YES') = 1,
  'UPDATE id_alloc SET step = 1000 WHERE step IS NULL', 'DO 0');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

SET @shardid_sql = IF((SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'id_alloc' AND column_name = 'app_name' AND is_nullable = 'YES') = 1,
  'UPDATE id_alloc SET app_name = '''' WHERE app_name IS NULL', 'DO 0');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

SET @shardid_columns = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'app_id' AND data_type = 'int' AND column_type NOT LIKE '%unsigned%' AND is_nullable = 'NO') = 1,
      NULL, 'MODIFY app_id int NOT NULL'),
    IF(SUM(column_name = 'shard_id' AND data_type = 'int' AND column_type NOT LIKE '%unsigned%' AND is_nullable = 'NO') = 1,
      NULL, 'MODIFY shard_id int NOT NULL'),
    IF(SUM(column_name = 'app_name' AND data_type = 'varchar' AND character_set_name = 'utf8mb4'
        AND character_maximum_length >= 128 AND is_nullable = 'NO') = 1,
      NULL, CONCAT('MODIFY app_name varchar(',
        GREATEST(128, IFNULL(MAX(IF(column_name = 'app_name' AND data_type = 'varchar', character_maximum_length, NULL)), 128)),
        ') CHARACTER SET utf8mb4 NOT NULL')),
    IF(SUM(column_name = 'max_id' AND data_type = 'bigint' AND column_type NOT LIKE '%unsigned%'
        AND is_nullable = 'NO' AND REPLACE(column_default, '''', '') = '0') = 1,
      NULL, 'MODIFY max_id bigint NOT NULL DEFAULT 0 COMMENT ''highest index handed out'''),
    IF(SUM(column_name = 'step') = 0, 'ADD COLUMN step int NOT NULL DEFAULT 1000',
      IF(SUM(column_name = 'step' AND data_type = 'int' AND is_nullable = 'NO' AND REPLACE(column_default, '''', '') = '1000') = 1,
        NULL, 'MODIFY step int NOT NULL DEFAULT 1000')),
    IF(SUM(column_name = 'description') = 0, 'ADD COLUMN description varchar(255) CHARACTER SET utf8mb4 DEFAULT NULL',
      IF(SUM(column_name = 'description' AND data_type = 'varchar' AND character_set_name <> 'utf8mb4') = 0,
        NULL, CONCAT('MODIFY description varchar(',
          GREATEST(255, MAX(IF(column_name = 'description', character_maximum_length, 0))),
          ') CHARACTER SET utf8mb4 DEFAULT NULL'))),
    IF(SUM(column_name = 'create_time') = 0, 'ADD COLUMN create_time datetime DEFAULT CURRENT_TIMESTAMP',
      IF(SUM(column_name = 'create_time' AND LOWER(column_default) LIKE 'current_timestamp%') = 1,
        NULL, 'MODIFY create_time datetime DEFAULT CURRENT_TIMESTAMP')),
    IF(SUM(column_name = 'update_time') = 0,
      'ADD COLUMN update_time datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP',
      IF(SUM(column_name = 'update_time' AND LOWER(column_default) LIKE 'current_timestamp%'
          AND LOWER(extra) LIKE '%on update current_timestamp%') = 1,
        NULL, 'MODIFY update_time datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP')),
    IF(SUM(column_name = 'max_limit_id') = 0, 'ADD COLUMN max_limit_id bigint NOT NULL DEFAULT 0',
      IF(SUM(column_name = 'max_limit_id' AND data_type = 'bigint' AND column_type NOT LIKE '%unsigned%'
          AND is_nullable = 'NO' AND REPLACE(column_default, '''', '') = '0') = 1,
        NULL, 'MODIFY max_limit_id bigint NOT NULL DEFAULT 0')),
    IF(SUM(column_name = 'limit_policy') = 0,
      'ADD COLUMN limit_policy varchar(8) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''reject''', NULL),
    IF(SUM(column_name = 'current_step') = 0, 'ADD COLUMN current_step bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'allocated_at') = 0, 'ADD COLUMN allocated_at bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'db_server') = 0,
      'ADD COLUMN db_server varchar(40) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''''', NULL),
    IF(SUM(column_name = 'db_booted_at') = 0, 'ADD COLUMN db_booted_at bigint NOT NULL DEFAULT 0', NULL),
    IF(SUM(column_name = 'list_history') = 0,
      'ADD COLUMN list_history varchar(64) CHARACTER SET utf8mb4 NOT NULL DEFAULT ''''', NULL),
    IF(SUM(column_name = 'last_max_id') = 0, 'ADD COLUMN last_max_id bigint NOT NULL DEFAULT 0', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'id_alloc');

SET @shardid_rest = (SELECT CONCAT_WS(', ',
    IF(SUM(constraint_name = 'PRIMARY') > 0, NULL, 'ADD PRIMARY KEY (app_id, shard_id)'),
    IF(SUM(constraint_name = 'id_alloc_app_id_is_0_to_255') > 0, NULL,
      'ADD CONSTRAINT id_alloc_app_id_is_0_to_255 CHECK (app_id BETWEEN 0 AND 255)'),
    IF(SUM(constraint_name = 'id_alloc_shard_id_is_0_to_63') > 0, NULL,
      'ADD CONSTRAINT id_alloc_shard_id_is_0_to_63 CHECK (shard_id BETWEEN 0 AND 63)'),
    IF(SUM(constraint_name = 'id_alloc_limit_policy_is_known') > 0, NULL,
      'ADD CONSTRAINT id_alloc_limit_policy_is_known CHECK (limit_policy IN (''reject'', ''wrap''))'))
  FROM information_schema.table_constraints WHERE table_schema = DATABASE() AND table_name = 'id_alloc');

-- Row locks need InnoDB.
SET @shardid_table = (SELECT CONCAT_WS(', ',
    IF(engine = 'InnoDB', NULL, 'ENGINE=InnoDB'),
    IF(table_collation LIKE 'utf8mb4%', NULL, 'DEFAULT CHARACTER SET utf8mb4'))
  FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'id_alloc');

SET @shardid_sql = CONCAT_WS(', ', NULLIF(@shardid_columns, ''), NULLIF(@shardid_rest, ''), NULLIF(@shardid_table, ''));
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE id_alloc ', @shardid_sql));
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
