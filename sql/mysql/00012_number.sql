-- Table shardid_number: how the IDs of a tag are shown as texts, such as
-- ORD-20261122-00000001. A row is made with its tag and never changed nor removed: a tag that
-- comes back under its name is shown as before. The sequences are in leaf_alloc, in the high
-- bits of max_id the period.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

-- Which names are one tag is the collation's of leaf_alloc to say, as in leaf_alloc_deleted.
SET @shardid_sql = (SELECT CONCAT('CREATE TABLE IF NOT EXISTS shardid_number (',
    'biz_tag ', column_type, ' CHARACTER SET ', character_set_name, ' COLLATE ', collation_name, ' NOT NULL, ',
    'pattern varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT ''literal text, date fields and {seq:N}'', ',
    'reset_by varchar(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT ''day, month, year or none'', ',
    'zone varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT ''in which days begin'', ',
    'overflow varchar(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT ''widen or refuse'', ',
    'created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc' AND column_name = 'biz_tag');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
