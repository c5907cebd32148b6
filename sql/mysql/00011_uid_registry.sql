-- Tables for uid.worker: registry. shardid_uid_workerid_alloc is the registry mysql of
-- the UID mode, in the shape of leaf_workerid_alloc, which is the snowflake mode's.
-- shardid_uid_place remembers which row of WORKER_NODE, and so which worker ID in UIDs,
-- belongs to a worker ID of a registry. Only 0.2 and 0.3 use them.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_uid_workerid_alloc (
  id             bigint       NOT NULL COMMENT '1..1024, 1024 is worker ID 0',
  ip             varchar(127) DEFAULT NULL,
  port           varchar(127) DEFAULT NULL,
  ip_port        varchar(127) NOT NULL,
  max_timestamp  bigint       DEFAULT NULL COMMENT 'last report, Unix ms by the clock of the instance',
  create_time    timestamp    NULL DEFAULT NULL,
  update_time    timestamp    NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  identity       varchar(64)  NOT NULL DEFAULT '' COMMENT 'of the data folder of the holder',
  token          varchar(64)  NOT NULL DEFAULT '' COMMENT 'of the process that holds the lease, empty: none',
  reserved_until bigint       NOT NULL DEFAULT 0 COMMENT 'the holder may use it up to this time, Unix ms',
  expires_at     bigint       NOT NULL DEFAULT 0 COMMENT 'from then on another may follow, Unix ms',
  claimed_at     bigint       NOT NULL DEFAULT 0 COMMENT 'when the lease was got, 0 once it was renewed, Unix ms',
  seen_at        bigint       NOT NULL DEFAULT 0 COMMENT 'last report, Unix ms by the clock of the server',
  own_timestamp  bigint       NOT NULL DEFAULT 0 COMMENT 'max_timestamp as shardid wrote it',
  made_at        bigint       NOT NULL DEFAULT 0 COMMENT 'when the row was made, Unix ms',
  PRIMARY KEY (id),
  UNIQUE KEY idx_ipport (ip_port)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

INSERT IGNORE INTO shardid_lock (name) VALUES ('shardid_uid_workerid_alloc');

CREATE TABLE IF NOT EXISTS shardid_uid_place (
  registry  varchar(160) NOT NULL COMMENT 'kind and name of the registry',
  worker_id int          NOT NULL COMMENT 'what the registry gave, 0..1023',
  node_id   bigint       NOT NULL COMMENT 'ID of the row of WORKER_NODE',
  token     varchar(64)  NOT NULL COMMENT 'TOKEN of that row when this was stored',
  since     bigint       NOT NULL COMMENT 'since of shardid_deployment when this was stored',
  PRIMARY KEY (registry, worker_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
