-- Which of several deployments without a common store this is: the region's ID, a slash and
-- its bits, such as 1/2. Empty: it is alone. It is stored before the first ID that has it,
-- and never changed.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

SET @shardid_sql = (SELECT IF(COUNT(*) = 0,
    'ALTER TABLE shardid_deployment ADD COLUMN region varchar(8) NOT NULL DEFAULT '''' COMMENT ''ID/bits of the region whose IDs are issued; empty: none''',
    'DO 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'shardid_deployment' AND column_name = 'region');
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
