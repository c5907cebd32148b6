-- Table leaf_alloc: one row per segment tag, Leaf's own table. A segment is
-- [max_id before, max_id after).
--
-- Runs any number of times. A table made with Leaf's DDL is used as it is, with
-- its rows and whatever columns a fork has added, and a Java Leaf can go on
-- using it.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) NOT NULL DEFAULT '',
  max_id      bigint       NOT NULL DEFAULT 1 COMMENT 'first ID not handed out',
  step        int          NOT NULL COMMENT 'smallest segment, in IDs',
  description varchar(256) DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What follows changes nothing on a table that is as above or as Leaf makes it
-- with utf8mb4. Otherwise all that is missing is put into one ALTER. A tag that
-- is converted becomes utf8mb4_bin, where no two names that differed are equal.

SET @shardid_columns = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'biz_tag' AND character_set_name <> 'utf8mb4') = 0, NULL,
      CONCAT('MODIFY biz_tag varchar(', MAX(IF(column_name = 'biz_tag', character_maximum_length, 0)),
        ') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''''')),
    IF(SUM(column_name = 'description') = 0, 'ADD COLUMN description varchar(256) CHARACTER SET utf8mb4 DEFAULT NULL',
      IF(SUM(column_name = 'description' AND data_type = 'varchar' AND character_set_name <> 'utf8mb4') = 0, NULL,
        CONCAT('MODIFY description varchar(', MAX(IF(column_name = 'description', character_maximum_length, 0)),
          ') CHARACTER SET utf8mb4 DEFAULT NULL'))),
    IF(SUM(column_name = 'update_time') = 0,
      'ADD COLUMN update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc');

SET @shardid_key = (SELECT IF(SUM(constraint_name = 'PRIMARY') > 0, '', 'ADD PRIMARY KEY (biz_tag)')
  FROM information_schema.table_constraints WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc');

-- Row locks need InnoDB.
SET @shardid_table = (SELECT IF(engine = 'InnoDB', '', 'ENGINE=InnoDB')
  FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc');

SET @shardid_sql = CONCAT_WS(', ', NULLIF(@shardid_columns, ''),
  IF(@shardid_key IS NULL, 'ADD PRIMARY KEY (biz_tag)', NULLIF(@shardid_key, '')), NULLIF(@shardid_table, ''));
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE leaf_alloc ', @shardid_sql));
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
