-- What was handed out of apps and tags before they were deleted: should one come
-- back under its old ID or name, by whatever road, it goes on above that. Rows are
-- read by every allocation and never removed.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS id_alloc_deleted (
  app_id     int       NOT NULL COMMENT '0..255',
  shard_id   int       NOT NULL COMMENT '0..63',
  max_id     bigint    NOT NULL COMMENT 'highest index handed out before',
  deleted_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (app_id, shard_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Which names are one tag is the collation's of leaf_alloc to say, so its name
-- column is as wide and as case-sensitive as the one there.
SET @shardid_sql = (SELECT CONCAT('CREATE TABLE IF NOT EXISTS leaf_alloc_deleted (',
    'biz_tag ', column_type, ' CHARACTER SET ', character_set_name, ' COLLATE ', collation_name, ' NOT NULL, ',
    'max_id bigint NOT NULL COMMENT ''first ID not handed out before'', ',
    'deleted_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc' AND column_name = 'biz_tag');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

-- Procedure alloc_initData as before, above what the app had before it was deleted.
DROP PROCEDURE IF EXISTS alloc_initData;

CREATE PROCEDURE alloc_initData(
  appId INT,
  appName VARCHAR(128) CHARACTER SET utf8mb4,
  description VARCHAR(255) CHARACTER SET utf8mb4)
  MODIFIES SQL DATA
  INSERT INTO id_alloc (app_id, app_name, max_id, shard_id, step, description)
  SELECT appId, appName, COALESCE(deleted.max_id, 0), shards.shard, 1000, description FROM (
    SELECT 0 AS shard UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7
    UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15
    UNION ALL SELECT 16 UNION ALL SELECT 17 UNION ALL SELECT 18 UNION ALL SELECT 19 UNION ALL SELECT 20 UNION ALL SELECT 21 UNION ALL SELECT 22 UNION ALL SELECT 23
    UNION ALL SELECT 24 UNION ALL SELECT 25 UNION ALL SELECT 26 UNION ALL SELECT 27 UNION ALL SELECT 28 UNION ALL SELECT 29 UNION ALL SELECT 30 UNION ALL SELECT 31
    UNION ALL SELECT 32 UNION ALL SELECT 33 UNION ALL SELECT 34 UNION ALL SELECT 35 UNION ALL SELECT 36 UNION ALL SELECT 37 UNION ALL SELECT 38 UNION ALL SELECT 39
    UNION ALL SELECT 40 UNION ALL SELECT 41 UNION ALL SELECT 42 UNION ALL SELECT 43 UNION ALL SELECT 44 UNION ALL SELECT 45 UNION ALL SELECT 46 UNION ALL SELECT 47
    UNION ALL SELECT 48 UNION ALL SELECT 49 UNION ALL SELECT 50 UNION ALL SELECT 51 UNION ALL SELECT 52 UNION ALL SELECT 53 UNION ALL SELECT 54 UNION ALL SELECT 55
    UNION ALL SELECT 56 UNION ALL SELECT 57 UNION ALL SELECT 58 UNION ALL SELECT 59 UNION ALL SELECT 60 UNION ALL SELECT 61 UNION ALL SELECT 62 UNION ALL SELECT 63
  ) AS shards LEFT JOIN id_alloc_deleted AS deleted ON deleted.app_id = appId AND deleted.shard_id = shards.shard;
