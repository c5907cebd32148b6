-- Table shardid_deployment: one row. It says which deployment this database
-- belongs to, which life of which database server has written last, and until when
-- that server is known to have everything. The other columns that are added here
-- bound how much of a counter can be missing in a copy of the database.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_deployment (
  only_row    int         NOT NULL DEFAULT 1 COMMENT '1: there is one row',
  deployment  varchar(64) NOT NULL COMMENT 'random, made once; Redis keys carry it',
  server      varchar(64) NOT NULL DEFAULT '' COMMENT 'server, or cluster, that wrote last',
  booted_at   bigint      NOT NULL DEFAULT 0 COMMENT 'when that server had started, Unix s, 0: a cluster',
  since       bigint      NOT NULL DEFAULT 0 COMMENT 'when that server was noted here, Unix ms',
  beat_at     bigint      NOT NULL DEFAULT 0 COMMENT 'heartbeat: the row is at least that new, Unix ms',
  oldest_copy bigint      NOT NULL DEFAULT 0 COMMENT 'no jump reaches further than one from a copy of then, Unix ms',
  jump_from   bigint      NOT NULL DEFAULT 0 COMMENT 'when counters in doubt may jump, Unix ms',
  list_rate   bigint      NOT NULL DEFAULT 0 COMMENT 'most indices a second of a list',
  tag_rate    bigint      NOT NULL DEFAULT 0 COMMENT 'most IDs a second of a tag',
  rates_from  bigint      NOT NULL DEFAULT 0 COMMENT 'when the rates count, Unix ms',
  node_last   bigint      NOT NULL DEFAULT 0 COMMENT 'number of the last start in WORKER_NODE',
  node_doubt  bigint      NOT NULL DEFAULT 0 COMMENT 'starts after it that may be missing',
  node_tokens bigint      NOT NULL DEFAULT 0 COMMENT 'starts that were allowed at node_at',
  node_at     bigint      NOT NULL DEFAULT 0 COMMENT 'last start, Unix ms',
  node_life   varchar(80) NOT NULL DEFAULT '' COMMENT 'life of the mark that covers WORKER_NODE',
  PRIMARY KEY (only_row),
  CONSTRAINT shardid_deployment_has_one_row CHECK (only_row = 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO shardid_deployment (only_row, deployment) VALUES (1, REPLACE(UUID(), '-', ''));

SET @shardid_sql = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'doubt') = 0, 'ADD COLUMN doubt bigint NOT NULL DEFAULT 0 COMMENT ''indices above max_id that may have been handed out''', NULL),
    IF(SUM(column_name = 'taken_at') = 0, 'ADD COLUMN taken_at bigint NOT NULL DEFAULT 0 COMMENT ''last segment, Unix ms by the clock of the server''', NULL),
    IF(SUM(column_name = 'tokens') = 0, 'ADD COLUMN tokens bigint NOT NULL DEFAULT 0 COMMENT ''indices that were allowed at taken_at''', NULL),
    IF(SUM(column_name = 'max_rate') = 0, 'ADD COLUMN max_rate bigint NOT NULL DEFAULT 0 COMMENT ''most indices a second, 0: as all lists''', NULL),
    IF(SUM(column_name = 'rate_from') = 0, 'ADD COLUMN rate_from bigint NOT NULL DEFAULT 0 COMMENT ''when max_rate counts, Unix ms''', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'id_alloc');
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE id_alloc ', @shardid_sql));
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;

SET @shardid_sql = (SELECT CONCAT_WS(', ',
    IF(SUM(column_name = 'doubt') = 0, 'ADD COLUMN doubt bigint NOT NULL DEFAULT 0 COMMENT ''IDs from max_id on that may have been handed out''', NULL),
    IF(SUM(column_name = 'tokens') = 0, 'ADD COLUMN tokens bigint NOT NULL DEFAULT 0 COMMENT ''IDs that were allowed at taken_at''', NULL),
    IF(SUM(column_name = 'taken_at') = 0, 'ADD COLUMN taken_at bigint NOT NULL DEFAULT 0 COMMENT ''last segment, Unix ms by the clock of the server''', NULL),
    IF(SUM(column_name = 'max_rate') = 0, 'ADD COLUMN max_rate bigint NOT NULL DEFAULT 0 COMMENT ''most IDs a second, 0: as all tags''', NULL),
    IF(SUM(column_name = 'rate_from') = 0, 'ADD COLUMN rate_from bigint NOT NULL DEFAULT 0 COMMENT ''when max_rate counts, Unix ms''', NULL),
    IF(SUM(column_name = 'own_max_id') = 0, 'ADD COLUMN own_max_id bigint NOT NULL DEFAULT 0 COMMENT ''max_id as shardid stored it''', NULL),
    IF(SUM(column_name = 'mark_life') = 0,
      'ADD COLUMN mark_life varchar(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''' COMMENT ''life of the mark that covers own_max_id''', NULL))
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'leaf_alloc');
SET @shardid_sql = IF(@shardid_sql = '', 'DO 0', CONCAT('ALTER TABLE leaf_alloc ', @shardid_sql));
PREPARE shardid_stmt FROM @shardid_sql;
EXECUTE shardid_stmt;
DEALLOCATE PREPARE shardid_stmt;
