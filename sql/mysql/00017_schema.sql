-- The schema of shardid for MySQL 8.0.16+ and MariaDB 10.11+: the baseline. It begins at
-- version 17, that of shardid 0.3, whose databases it leaves as they are.
--
-- It loads through `shardid migrate` or by hand (mysql db < file), any number of times. Four
-- tables may have been made by another program before: id_alloc by the original article's
-- service, leaf_alloc by Leaf, leaf_workerid_alloc by a fork of Leaf, WORKER_NODE by
-- UidGenerator. `shardid migrate` keeps their rows and gives them the columns, keys and checks
-- below. Every column of ours has a default, so that those programs can go on.
--
-- Times are Unix milliseconds unless a comment says otherwise.
--
-- +goose NO TRANSACTION
-- +goose Up

-- One row per list, which is a shard of an app.
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
  last_max_id  bigint       NOT NULL DEFAULT 0 COMMENT 'max_id as the last segment left it',
  doubt        bigint       NOT NULL DEFAULT 0 COMMENT 'indices above max_id that may have been handed out',
  taken_at     bigint       NOT NULL DEFAULT 0 COMMENT 'last segment, by the clock of the server',
  tokens       bigint       NOT NULL DEFAULT 0 COMMENT 'indices that were allowed at taken_at',
  max_rate     bigint       NOT NULL DEFAULT 0 COMMENT 'unused since 0.4',
  last_change  bigint       NOT NULL DEFAULT 0 COMMENT 'change of the server that doubt accounts for',
  PRIMARY KEY (app_id, shard_id),
  CONSTRAINT id_alloc_app_id_is_0_to_255 CHECK (app_id BETWEEN 0 AND 255),
  CONSTRAINT id_alloc_shard_id_is_0_to_63 CHECK (shard_id BETWEEN 0 AND 63),
  CONSTRAINT id_alloc_limit_policy_is_known CHECK (limit_policy IN ('reject', 'wrap'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per segment tag, Leaf's own table. A segment is [max_id before, max_id after).
CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     varchar(128) NOT NULL DEFAULT '',
  max_id      bigint       NOT NULL DEFAULT 1 COMMENT 'first ID not handed out',
  step        int          NOT NULL COMMENT 'smallest segment, in IDs',
  description varchar(256) DEFAULT NULL,
  update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  doubt       bigint       NOT NULL DEFAULT 0 COMMENT 'IDs from max_id on that may have been handed out',
  tokens      bigint       NOT NULL DEFAULT 0 COMMENT 'IDs that were allowed at taken_at',
  taken_at    bigint       NOT NULL DEFAULT 0 COMMENT 'last segment, by the clock of the server',
  max_rate    bigint       NOT NULL DEFAULT 0 COMMENT 'unused since 0.4',
  own_max_id  bigint       NOT NULL DEFAULT 0 COMMENT 'max_id as shardid stored it',
  last_change bigint       NOT NULL DEFAULT 0 COMMENT 'change of the server that doubt accounts for',
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What was handed out of apps and tags before they were deleted: should one come back under
-- its old ID or name, by whatever road, it goes on above that. Rows are never removed.
CREATE TABLE IF NOT EXISTS id_alloc_deleted (
  app_id     int       NOT NULL COMMENT '0..255',
  shard_id   int       NOT NULL COMMENT '0..63',
  max_id     bigint    NOT NULL COMMENT 'highest index handed out before',
  deleted_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (app_id, shard_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS leaf_alloc_deleted (
  biz_tag    varchar(128) NOT NULL,
  max_id     bigint       NOT NULL COMMENT 'first ID not handed out before',
  deleted_at timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How the IDs of a tag are shown as texts, such as ORD-20261122-00000001. A row is made with
-- its tag and never changed nor removed: a tag that comes back under its name is shown as
-- before. The numbers are in leaf_alloc, in the high bits of max_id the period.
CREATE TABLE IF NOT EXISTS shardid_number (
  biz_tag    varchar(128) NOT NULL,
  pattern    varchar(128) NOT NULL COMMENT 'literal text, date fields and {seq:N}',
  reset_by   varchar(8)   NOT NULL COMMENT 'day, month, year or none',
  zone       varchar(64)  NOT NULL COMMENT 'in which days begin',
  overflow   varchar(8)   NOT NULL COMMENT 'widen or refuse',
  created_at timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The 64 rows of one app, all or none, above what the app had before it was deleted. The body
-- is a single statement, so that it loads without DELIMITER. An appId outside 0..255 fails
-- through the table's CHECK, an app that exists through the primary key.
DROP PROCEDURE IF EXISTS alloc_initData;

CREATE PROCEDURE alloc_initData(
  appId INT,
  appName VARCHAR(128) CHARACTER SET utf8mb4,
  description VARCHAR(255) CHARACTER SET utf8mb4)
  MODIFIES SQL DATA
  INSERT INTO id_alloc (app_id, app_name, max_id, shard_id, step, description)
  WITH RECURSIVE shards AS (SELECT 0 AS shard UNION ALL SELECT shard + 1 FROM shards WHERE shard < 63)
  SELECT appId, appName, COALESCE(deleted.max_id, 0), shards.shard, 1000, description
  FROM shards LEFT JOIN id_alloc_deleted AS deleted ON deleted.app_id = appId AND deleted.shard_id = shards.shard;

-- The apps whose IDs show neither order nor volume. A row is made with its app and never
-- removed: an app that comes back under its ID is scrambled again. The secret that all keys
-- are made of belongs to the deployment and never changes, so a copy of the database that
-- lacks an app has the key for it.
CREATE TABLE IF NOT EXISTS shardid_scramble (
  app_id     int         NOT NULL COMMENT '0..255',
  secret_sum varchar(64) NOT NULL COMMENT 'SHA-256 of the secret, in hex: with another one IDs would repeat',
  created_at timestamp   NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (app_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The layout and epoch that each kind of IDs has been issued with, written once.
CREATE TABLE IF NOT EXISTS id_layout (
  kind        varchar(32)  NOT NULL COMMENT 'snowflake or uid',
  layout      varchar(255) NOT NULL COMMENT 'widths and epoch, as text',
  recorded_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (kind)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row per worker ID of the snowflake mode, which is id mod the number of worker IDs.
CREATE TABLE IF NOT EXISTS leaf_workerid_alloc (
  id             bigint       NOT NULL AUTO_INCREMENT COMMENT '1..1024, 1024 is worker ID 0',
  ip             varchar(127) DEFAULT NULL,
  port           varchar(127) DEFAULT NULL,
  ip_port        varchar(127) NOT NULL,
  max_timestamp  bigint       DEFAULT NULL COMMENT 'last report, by the clock of the instance',
  create_time    timestamp    NULL DEFAULT NULL,
  update_time    timestamp    NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  identity       varchar(64)  CHARACTER SET utf8mb4 NOT NULL DEFAULT '' COMMENT 'of the data folder of the holder',
  token          varchar(64)  CHARACTER SET utf8mb4 NOT NULL DEFAULT '' COMMENT 'of the process that holds the lease, empty: none',
  reserved_until bigint       NOT NULL DEFAULT 0 COMMENT 'IDs up to this time may have been issued',
  expires_at     bigint       NOT NULL DEFAULT 0 COMMENT 'from then on another may follow',
  claimed_at     bigint       NOT NULL DEFAULT 0 COMMENT 'when the lease was got, 0 once it was renewed',
  seen_at        bigint       NOT NULL DEFAULT 0 COMMENT 'unused since 0.4, which sets it to 0',
  own_timestamp  bigint       NOT NULL DEFAULT 0 COMMENT 'max_timestamp as shardid wrote it',
  made_at        bigint       NOT NULL DEFAULT 0 COMMENT 'when shardid made the row',
  PRIMARY KEY (id),
  UNIQUE KEY idx_ipport (ip_port)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per start of an instance in the UID mode, its ID is the worker ID. Baidu's own table.
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
  USED_BEFORE bigint      NOT NULL DEFAULT 0 COMMENT 'unused since 0.4',
  PRIMARY KEY (ID),
  UNIQUE KEY SHARDID_TOKEN (TOKEN),
  KEY SHARDID_USED_UNTIL (USED_UNTIL)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per process that issues snowflakes, with the registry of its worker ID. Registries
-- know nothing of each other; this table keeps their instances apart.
CREATE TABLE IF NOT EXISTS shardid_worker_claim (
  token     varchar(64)  NOT NULL COMMENT 'of the process',
  registry  varchar(255) NOT NULL COMMENT 'identity of the registry that gave the worker ID',
  worker_id int          NOT NULL,
  until_ms  bigint       NOT NULL COMMENT 'IDs of an earlier time may be issued, and some more',
  PRIMARY KEY (token)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row per table whose free IDs are given out one at a time. The rows are locked and never
-- changed.
CREATE TABLE IF NOT EXISTS shardid_lock (
  name varchar(64) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO shardid_lock (name) VALUES ('leaf_workerid_alloc'), ('WORKER_NODE'), ('shardid_worker_claim');

-- One row: which deployment this database belongs to, which life of which database server has
-- written last, and until when that server is known to have everything. The other columns
-- bound how much of a counter can be missing in a copy of the database.
CREATE TABLE IF NOT EXISTS shardid_deployment (
  only_row        int          NOT NULL DEFAULT 1 COMMENT '1: there is one row',
  deployment      varchar(64)  NOT NULL COMMENT 'random, made once; Redis keys carry it',
  region          varchar(8)   NOT NULL DEFAULT '' COMMENT 'ID/bits of the region whose IDs are issued, stored before the first one and never changed; empty: none',
  scramble_secret varchar(64)  NOT NULL DEFAULT '' COMMENT 'made once: keys of scrambled apps are made of it',
  server          varchar(64)  NOT NULL DEFAULT '' COMMENT 'server, or cluster, that wrote last',
  booted_at       bigint       NOT NULL DEFAULT 0 COMMENT 'when that server had started, Unix s, 0: a cluster',
  server_life     varchar(64)  NOT NULL DEFAULT '' COMMENT 'random, of the start of that server; its machine; its number. Empty: not known',
  since           bigint       NOT NULL DEFAULT 0 COMMENT 'when that server was noted here',
  changes         bigint       NOT NULL DEFAULT 0 COMMENT 'number of the last row of shardid_change',
  beat_at         bigint       NOT NULL DEFAULT 0 COMMENT 'heartbeat: the row is at least that new',
  oldest_copy     bigint       NOT NULL DEFAULT 0 COMMENT 'no jump reaches further than one from a copy of then',
  jump_from       bigint       NOT NULL DEFAULT 0 COMMENT 'when counters in doubt may jump',
  list_rate       bigint       NOT NULL DEFAULT 0 COMMENT 'most indices a second of a list',
  tag_rate        bigint       NOT NULL DEFAULT 0 COMMENT 'most IDs a second of a tag',
  rates_from      bigint       NOT NULL DEFAULT 0 COMMENT 'when the rates count',
  witness         varchar(120) NOT NULL DEFAULT '' COMMENT 'life of Redis that knows every number taken since it was named, and a random name',
  witness_place   varchar(255) NOT NULL DEFAULT '' COMMENT 'where that Redis is reached',
  node_last       bigint       NOT NULL DEFAULT 0 COMMENT 'number of the last start in WORKER_NODE',
  node_lost       bigint       NOT NULL DEFAULT 0 COMMENT 'starts up to node_last that WORKER_NODE may lack',
  node_doubt      bigint       NOT NULL DEFAULT 0 COMMENT 'starts after it that may be missing',
  node_change     bigint       NOT NULL DEFAULT 0 COMMENT 'change that node_doubt accounts for',
  node_tokens     bigint       NOT NULL DEFAULT 0 COMMENT 'starts that were allowed at node_at',
  node_at         bigint       NOT NULL DEFAULT 0 COMMENT 'last start',
  PRIMARY KEY (only_row),
  CONSTRAINT shardid_deployment_has_one_row CHECK (only_row = 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO shardid_deployment (only_row, deployment) VALUES (1, REPLACE(UUID(), '-', ''));

-- The replicas that are at work, and which witness each of them holds.
CREATE TABLE IF NOT EXISTS shardid_replica (
  id        varchar(64)  NOT NULL COMMENT 'random, of one process',
  uses      varchar(80)  NOT NULL COMMENT 'life of the Redis that it uses, empty: none',
  holds     varchar(120) NOT NULL COMMENT 'witness that it may let vouch, empty: none',
  list_rate bigint       NOT NULL COMMENT 'most indices a second of a list, as it is configured',
  tag_rate  bigint       NOT NULL COMMENT 'most IDs a second of a tag, as it is configured',
  seen_at   bigint       NOT NULL COMMENT 'last heard of',
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The changes of the database server, which rows of counters account for as they are used.
CREATE TABLE IF NOT EXISTS shardid_change (
  number    bigint       NOT NULL COMMENT 'counts the changes of the server',
  noted_at  bigint       NOT NULL,
  known_at  bigint       NOT NULL COMMENT 'what was stored before is there',
  slack     bigint       NOT NULL COMMENT 'clocks may differ so much, ms',
  reach_at  bigint       NOT NULL COMMENT 'from when on jumps went that the database did not know of, 0: none',
  again     int          NOT NULL COMMENT '1: an earlier doubt accounts for slack',
  list_rate bigint       NOT NULL COMMENT 'most indices a second of a list',
  tag_rate  bigint       NOT NULL COMMENT 'most IDs a second of a tag',
  witness   varchar(120) NOT NULL COMMENT 'knows what rows lack, empty: nobody does',
  settled   int          NOT NULL DEFAULT 0 COMMENT '1: every row has what the witness knew',
  PRIMARY KEY (number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Worker IDs as a service: names, which are spaces of worker IDs with a layout each, and the
-- last lease of each worker ID of a name. Rows of leases are never deleted: the next lease
-- begins above what they say.
CREATE TABLE IF NOT EXISTS shardid_name (
  name        varchar(64) NOT NULL,
  epoch_ms    bigint      NOT NULL COMMENT 'time in the IDs counts from it',
  worker_bits int         NOT NULL,
  seq_bits    int         NOT NULL,
  hold_ms     bigint      NOT NULL COMMENT 'how long a holder may go on without shardid',
  was_hold_ms bigint      NOT NULL DEFAULT 0 COMMENT 'an earlier, longer hold',
  set_at      bigint      NOT NULL DEFAULT 0 COMMENT 'leases before it may have that one',
  low_hold_ms bigint      NOT NULL DEFAULT 0 COMMENT 'an earlier, shorter hold',
  low_until   bigint      NOT NULL DEFAULT 0 COMMENT 'until when leases have that one',
  made_at     bigint      NOT NULL COMMENT 'read by nobody',
  deleted_at  bigint      NOT NULL DEFAULT 0 COMMENT '0: it is not; its layout and its leases stay',
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_lease (
  name       varchar(64)  NOT NULL,
  worker_id  bigint       NOT NULL,
  instance   varchar(128) NOT NULL COMMENT 'what the holder calls itself, empty: it did not say',
  secret     varchar(64)  NOT NULL COMMENT 'SHA-256 of what the holder renews with, in hex, empty: the lease was released',
  after_ms   bigint       NOT NULL COMMENT 'IDs of the lease have a later time',
  until_ms   bigint       NOT NULL COMMENT 'and this one at most; those of the next lease have a later one',
  granted_at bigint       NOT NULL,
  renewed_at bigint       NOT NULL COMMENT '0: never',
  PRIMARY KEY (name, worker_id),
  KEY shardid_lease_instance (name, instance),
  KEY shardid_lease_until (name, until_ms)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Sequences: spaces of keys whose numbers rise. Keys are spread over the sections of their
-- space; a section is a counter, and says which life of Redis gives its numbers.
CREATE TABLE IF NOT EXISTS shardid_sequence (
  name     varchar(64) NOT NULL,
  sections int         NOT NULL COMMENT 'it never changes: each key has one of them',
  step     bigint      NOT NULL COMMENT 'numbers that a section takes at once',
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_section (
  space       varchar(64) NOT NULL,
  section     int         NOT NULL,
  max_id      bigint      NOT NULL COMMENT 'highest number that was taken',
  doubt       bigint      NOT NULL DEFAULT 0 COMMENT 'as in id_alloc',
  last_change bigint      NOT NULL DEFAULT 0 COMMENT 'as in id_alloc',
  tokens      bigint      NOT NULL DEFAULT 0 COMMENT 'as in id_alloc',
  taken_at    bigint      NOT NULL DEFAULT 0 COMMENT '0: never',
  life        varchar(80) NOT NULL COMMENT 'of the section in the Redis that gives its numbers: replication ID and since when, empty: none yet, ?: not known',
  term        bigint      NOT NULL DEFAULT 0 COMMENT 'under which it does, the first number that was taken for it',
  open        int         NOT NULL DEFAULT 0 COMMENT '1: no lease of an earlier term lives',
  PRIMARY KEY (space, section)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_fence (
  server     varchar(80)  NOT NULL COMMENT 'replication ID of a Redis that may give numbers',
  number     bigint       NOT NULL COMMENT 'a new one with every section that it loses: leases under another one cannot be renewed',
  place      varchar(255) NOT NULL COMMENT 'how it is reached',
  renewed_at bigint       NOT NULL,
  PRIMARY KEY (server)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_sequence_deleted (
  name       varchar(64) NOT NULL,
  max_id     bigint      NOT NULL COMMENT 'highest number that was taken before',
  deleted_at bigint      NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
