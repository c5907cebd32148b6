CREATE TABLE WORKER_NODE (
  `ID` bigint(20) NOT NULL AUTO_INCREMENT,
  HOST_NAME varchar(64) NOT NULL,
  `PORT` varchar(64) NOT NULL,
  `TYPE` int(11) NOT NULL COMMENT '1 container, 2 machine',
  LAUNCH_DATE date NOT NULL,
  MODIFIED timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  CREATED timestamp NOT NULL DEFAULT current_timestamp(),
  TOKEN varchar(64) DEFAULT NULL COMMENT 'of the start that has the worker ID',
  USED_UNTIL bigint(20) NOT NULL DEFAULT 0 COMMENT 'UIDs up to this Unix s may have been issued, 0: nobody knows',
  USED_BEFORE bigint(20) NOT NULL DEFAULT 0 COMMENT 'USED_UNTIL of the start that had the worker ID before',
  PRIMARY KEY (`ID`),
  UNIQUE KEY SHARDID_TOKEN (TOKEN),
  KEY SHARDID_USED_UNTIL (USED_UNTIL)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO WORKER_NODE (ID, HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED, TOKEN, USED_UNTIL, USED_BEFORE) VALUES (1,'vm','1795539568543-97362',1,'2026-11-24','2026-11-24 16:59:28','2026-11-24 16:59:28','LQ6JE5GPUORIZ4W74OKDMC5XEK',1795546768,0),
(2,'vm','1795539568618-42900',1,'2026-11-24','2026-11-24 16:59:32','2026-11-24 16:59:28','44JJUOI2LRIAHKCBW3FD2TDUMP',1795539571,0);
CREATE TABLE id_alloc (
  app_id int(11) NOT NULL COMMENT 'appId, 0..255',
  app_name varchar(128) NOT NULL,
  max_id bigint(20) NOT NULL DEFAULT 0 COMMENT 'highest index handed out',
  shard_id int(11) NOT NULL COMMENT '0..63',
  step int(11) NOT NULL DEFAULT 1000 COMMENT 'smallest segment, in indices',
  description varchar(255) DEFAULT NULL,
  create_time datetime DEFAULT current_timestamp(),
  update_time datetime DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  max_limit_id bigint(20) NOT NULL DEFAULT 0 COMMENT 'highest ID, 0: none',
  limit_policy varchar(8) NOT NULL DEFAULT 'reject' COMMENT 'reject or wrap',
  current_step bigint(20) NOT NULL DEFAULT 0 COMMENT 'length of the last segment',
  allocated_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'Unix ms of the last allocation',
  db_server varchar(40) NOT NULL DEFAULT '' COMMENT 'server that stored the last segment',
  db_booted_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'when that server had started, Unix s',
  list_history varchar(64) NOT NULL DEFAULT '' COMMENT 'history of the list the segment was for',
  last_max_id bigint(20) NOT NULL DEFAULT 0 COMMENT 'max_id as that segment left it',
  doubt bigint(20) NOT NULL DEFAULT 0 COMMENT 'indices above max_id that may have been handed out',
  taken_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'last segment, Unix ms by the clock of the server',
  tokens bigint(20) NOT NULL DEFAULT 0 COMMENT 'indices that were allowed at taken_at',
  max_rate bigint(20) NOT NULL DEFAULT 0 COMMENT 'most indices a second, 0: as all lists',
  rate_from bigint(20) NOT NULL DEFAULT 0 COMMENT 'when max_rate counts, Unix ms',
  PRIMARY KEY (app_id,shard_id),
  CONSTRAINT id_alloc_app_id_is_0_to_255 CHECK (app_id between 0 and 255),
  CONSTRAINT id_alloc_shard_id_is_0_to_63 CHECK (shard_id between 0 and 63),
  CONSTRAINT id_alloc_limit_policy_is_known CHECK (limit_policy in ('reject','wrap'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO id_alloc (app_id, app_name, max_id, shard_id, step, description, create_time, update_time, max_limit_id, limit_policy, current_step, allocated_at, db_server, db_booted_at, list_history, last_max_id, doubt, taken_at, tokens, max_rate, rate_from) VALUES (7,'orders',20,0,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,1,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,2,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,3,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,4,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,5,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,6,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,7,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,8,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,9,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,10,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,11,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,12,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,13,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,14,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,15,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,16,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',60,17,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:30',0,'reject',40,0,'',0,'b0097b330f743304c9c8796e518b38759a5fd20b-1795539567785207',60,0,1795539570674,99960,50000,1795539627331),
(7,'orders',20,18,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',60,19,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:32',0,'reject',40,0,'',0,'b0097b330f743304c9c8796e518b38759a5fd20b-1795539567785216',60,0,1795539572774,99960,50000,1795539627331),
(7,'orders',20,20,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',60,21,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:31',0,'reject',40,0,'',0,'b0097b330f743304c9c8796e518b38759a5fd20b-1795539567785226',60,0,1795539571688,99960,50000,1795539627331),
(7,'orders',20,22,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,23,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,24,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,25,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,26,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,27,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,28,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,29,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,30,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,31,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,32,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,33,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,34,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,35,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,36,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,37,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,38,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,39,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,40,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,41,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,42,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,43,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,44,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,45,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,46,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,47,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,48,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,49,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,50,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,51,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,52,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,53,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,54,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,55,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,56,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,57,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,58,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,59,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,60,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,61,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,62,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331),
(7,'orders',20,63,20,'the shop','2026-11-24 16:59:27','2026-11-24 16:59:28',0,'reject',20,0,'',0,'',20,0,1795539567810,99980,50000,1795539627331);
CREATE TABLE id_alloc_deleted (
  app_id int(11) NOT NULL COMMENT '0..255',
  shard_id int(11) NOT NULL COMMENT '0..63',
  max_id bigint(20) NOT NULL COMMENT 'highest index handed out before',
  deleted_at timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (app_id,shard_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE id_layout (
  kind varchar(32) NOT NULL COMMENT 'snowflake or uid',
  layout varchar(255) NOT NULL COMMENT 'widths and epoch, as text',
  recorded_at timestamp(3) NOT NULL DEFAULT current_timestamp(3),
  PRIMARY KEY (kind)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO id_layout (kind, layout, recorded_at) VALUES ('snowflake','epoch_ms=1288834974657','2026-11-24 16:59:27.837'),
('uid','time_bits=28 worker_bits=22 seq_bits=13 epoch=2026-01-01T00:00:00Z','2026-11-24 16:59:28.544');
CREATE TABLE leaf_alloc (
  biz_tag varchar(128) NOT NULL DEFAULT '',
  max_id bigint(20) NOT NULL DEFAULT 1 COMMENT 'first ID not handed out',
  step int(11) NOT NULL COMMENT 'smallest segment, in IDs',
  description varchar(256) DEFAULT NULL,
  update_time timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  doubt bigint(20) NOT NULL DEFAULT 0 COMMENT 'IDs from max_id on that may have been handed out',
  tokens bigint(20) NOT NULL DEFAULT 0 COMMENT 'IDs that were allowed at taken_at',
  taken_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'last segment, Unix ms by the clock of the server',
  max_rate bigint(20) NOT NULL DEFAULT 0 COMMENT 'most IDs a second, 0: as all tags',
  rate_from bigint(20) NOT NULL DEFAULT 0 COMMENT 'when max_rate counts, Unix ms',
  own_max_id bigint(20) NOT NULL DEFAULT 0 COMMENT 'max_id as shardid stored it',
  mark_life varchar(80) NOT NULL DEFAULT '' COMMENT 'life of the mark that covers own_max_id',
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO leaf_alloc (biz_tag, max_id, step, description, update_time, doubt, tokens, taken_at, max_rate, rate_from, own_max_id, mark_life) VALUES ('bills',1,7,'','2026-11-24 16:59:27',0,0,0,0,0,0,''),
('customers',1,7,'','2026-11-24 16:59:27',0,0,0,0,0,0,''),
('invoices',641,10,'of the books','2026-11-24 16:59:32',0,1999840,1795539572433,0,0,641,'b0097b330f743304c9c8796e518b38759a5fd20b-1795539567785825');
CREATE TABLE leaf_alloc_deleted (
  biz_tag varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  max_id bigint(20) NOT NULL COMMENT 'first ID not handed out before',
  deleted_at timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE leaf_workerid_alloc (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT '1..1024, 1024 is worker ID 0',
  ip varchar(127) DEFAULT NULL,
  `port` varchar(127) DEFAULT NULL,
  ip_port varchar(127) NOT NULL,
  max_timestamp bigint(20) DEFAULT NULL COMMENT 'last report, Unix ms by the clock of the instance',
  create_time timestamp NULL DEFAULT NULL,
  update_time timestamp NULL DEFAULT NULL ON UPDATE current_timestamp(),
  identity varchar(64) NOT NULL DEFAULT '' COMMENT 'of the data folder of the holder',
  token varchar(64) NOT NULL DEFAULT '' COMMENT 'of the process that holds the lease, empty: none',
  reserved_until bigint(20) NOT NULL DEFAULT 0 COMMENT 'IDs up to this time may have been issued, Unix ms',
  expires_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'from then on another may follow, Unix ms',
  claimed_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'when the lease was got, 0 once it was renewed, Unix ms',
  seen_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'last report, Unix ms by the clock of the server',
  own_timestamp bigint(20) NOT NULL DEFAULT 0 COMMENT 'max_timestamp as shardid wrote it',
  made_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'when shardid made the row, Unix ms',
  PRIMARY KEY (`id`),
  UNIQUE KEY idx_ipport (ip_port)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE shardid_deployment (
  only_row int(11) NOT NULL DEFAULT 1 COMMENT '1: there is one row',
  deployment varchar(64) NOT NULL COMMENT 'random, made once; Redis keys carry it',
  `server` varchar(64) NOT NULL DEFAULT '' COMMENT 'server, or cluster, that wrote last',
  booted_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'when that server had started, Unix s, 0: a cluster',
  since bigint(20) NOT NULL DEFAULT 0 COMMENT 'when that server was noted here, Unix ms',
  beat_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'heartbeat: the row is at least that new, Unix ms',
  oldest_copy bigint(20) NOT NULL DEFAULT 0 COMMENT 'no jump reaches further than one from a copy of then, Unix ms',
  jump_from bigint(20) NOT NULL DEFAULT 0 COMMENT 'when counters in doubt may jump, Unix ms',
  list_rate bigint(20) NOT NULL DEFAULT 0 COMMENT 'most indices a second of a list',
  tag_rate bigint(20) NOT NULL DEFAULT 0 COMMENT 'most IDs a second of a tag',
  rates_from bigint(20) NOT NULL DEFAULT 0 COMMENT 'when the rates count, Unix ms',
  node_last bigint(20) NOT NULL DEFAULT 0 COMMENT 'number of the last start in WORKER_NODE',
  node_doubt bigint(20) NOT NULL DEFAULT 0 COMMENT 'starts after it that may be missing',
  node_tokens bigint(20) NOT NULL DEFAULT 0 COMMENT 'starts that were allowed at node_at',
  node_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'last start, Unix ms',
  node_life varchar(80) NOT NULL DEFAULT '' COMMENT 'life of the mark that covers WORKER_NODE',
  witness_life varchar(80) NOT NULL DEFAULT '' COMMENT 'life of the marks at Redis at the last heartbeat',
  scramble_secret varchar(64) NOT NULL DEFAULT '' COMMENT 'made once: keys of scrambled apps are made of it',
  PRIMARY KEY (only_row),
  CONSTRAINT shardid_deployment_has_one_row CHECK (only_row = 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO shardid_deployment (only_row, deployment, server, booted_at, since, beat_at, oldest_copy, jump_from, list_rate, tag_rate, rates_from, node_last, node_doubt, node_tokens, node_at, node_life, witness_life, scramble_secret) VALUES (1,'6839b232e82811f1987a02fc00000001','3ebe6278f13bd0b713d9ac9c55931aea1af87e9a',1795539565,1795539567032,1795539567032,0,0,100000,1000000,0,2,0,99,1795539568620,'b0097b330f743304c9c8796e518b38759a5fd20b-1795539567785825','b0097b330f743304c9c8796e518b38759a5fd20b-1795539567785825','BLDZZGWP6DYJRYP36C46XCNFNL3O7NBTPEHHIBQNKBNTAZGMBO57');
CREATE TABLE shardid_lock (
  `name` varchar(64) NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO shardid_lock (name) VALUES ('WORKER_NODE'),
('leaf_workerid_alloc'),
('shardid_uid_workerid_alloc'),
('shardid_worker_claim');
CREATE TABLE shardid_number (
  biz_tag varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pattern varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'literal text, date fields and {seq:N}',
  reset_by varchar(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'day, month, year or none',
  zone varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'in which days begin',
  overflow varchar(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'widen or refuse',
  created_at timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO shardid_number (biz_tag, pattern, reset_by, zone, overflow, created_at) VALUES ('bills','BILL-{yyyyMMdd}-{seq:5}','day','UTC','refuse','2026-11-24 16:59:27'),
('customers','C{seq:6}','none','Asia/Shanghai','widen','2026-11-24 16:59:27');
CREATE TABLE shardid_schema (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  version_id bigint(20) NOT NULL,
  is_applied tinyint(1) NOT NULL,
  tstamp datetime DEFAULT current_timestamp(),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=14 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO shardid_schema (id, version_id, is_applied, tstamp) VALUES (1,0,1,'2026-11-24 16:59:26'),
(2,1,1,'2026-11-24 16:59:26'),
(3,2,1,'2026-11-24 16:59:26'),
(4,3,1,'2026-11-24 16:59:26'),
(5,4,1,'2026-11-24 16:59:26'),
(6,5,1,'2026-11-24 16:59:27'),
(7,6,1,'2026-11-24 16:59:27'),
(8,7,1,'2026-11-24 16:59:27'),
(9,8,1,'2026-11-24 16:59:27'),
(10,9,1,'2026-11-24 16:59:27'),
(11,10,1,'2026-11-24 16:59:27'),
(12,11,1,'2026-11-24 16:59:27'),
(13,12,1,'2026-11-24 16:59:27');
CREATE TABLE shardid_schema_lock (
  lock_id bigint(20) NOT NULL,
  `locked` tinyint(1) NOT NULL DEFAULT 0,
  locked_at datetime(6) DEFAULT NULL,
  locked_by text DEFAULT NULL,
  lease_expires_at datetime(6) DEFAULT NULL,
  updated_at datetime(6) DEFAULT NULL,
  PRIMARY KEY (lock_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO shardid_schema_lock (lock_id, locked, locked_at, locked_by, lease_expires_at, updated_at) VALUES (4097083626,0,NULL,NULL,NULL,'2026-11-24 16:59:27.036541');
CREATE TABLE shardid_scramble (
  app_id int(11) NOT NULL COMMENT '0..255',
  secret_sum varchar(64) NOT NULL COMMENT 'SHA-256 of the secret, in hex: with another one IDs would repeat',
  created_at timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (app_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE shardid_uid_place (
  registry varchar(160) NOT NULL COMMENT 'kind and name of the registry',
  worker_id int(11) NOT NULL COMMENT 'what the registry gave, 0..1023',
  node_id bigint(20) NOT NULL COMMENT 'ID of the row of WORKER_NODE',
  token varchar(64) NOT NULL COMMENT 'TOKEN of that row when this was stored',
  since bigint(20) NOT NULL COMMENT 'since of shardid_deployment when this was stored',
  PRIMARY KEY (registry,worker_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO shardid_uid_place (registry, worker_id, node_id, token, since) VALUES ('zk_recycle _uid.shardid',380,2,'44JJUOI2LRIAHKCBW3FD2TDUMP',1795539567032);
CREATE TABLE shardid_uid_workerid_alloc (
  `id` bigint(20) NOT NULL COMMENT '1..1024, 1024 is worker ID 0',
  ip varchar(127) DEFAULT NULL,
  `port` varchar(127) DEFAULT NULL,
  ip_port varchar(127) NOT NULL,
  max_timestamp bigint(20) DEFAULT NULL COMMENT 'last report, Unix ms by the clock of the instance',
  create_time timestamp NULL DEFAULT NULL,
  update_time timestamp NULL DEFAULT NULL ON UPDATE current_timestamp(),
  identity varchar(64) NOT NULL DEFAULT '' COMMENT 'of the data folder of the holder',
  token varchar(64) NOT NULL DEFAULT '' COMMENT 'of the process that holds the lease, empty: none',
  reserved_until bigint(20) NOT NULL DEFAULT 0 COMMENT 'the holder may use it up to this time, Unix ms',
  expires_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'from then on another may follow, Unix ms',
  claimed_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'when the lease was got, 0 once it was renewed, Unix ms',
  seen_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'last report, Unix ms by the clock of the server',
  own_timestamp bigint(20) NOT NULL DEFAULT 0 COMMENT 'max_timestamp as shardid wrote it',
  made_at bigint(20) NOT NULL DEFAULT 0 COMMENT 'when the row was made, Unix ms',
  PRIMARY KEY (`id`),
  UNIQUE KEY idx_ipport (ip_port)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE shardid_worker_claim (
  token varchar(64) NOT NULL COMMENT 'of the process',
  registry varchar(255) NOT NULL COMMENT 'identity of the registry that gave the worker ID',
  worker_id int(11) NOT NULL,
  until_ms bigint(20) NOT NULL COMMENT 'IDs of an earlier time may be issued, Unix ms',
  PRIMARY KEY (token)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO shardid_worker_claim (token, registry, worker_id, until_ms) VALUES ('MADH7DNABCTT4B66ENOJDGNXX3','zk_recycle shardid ZYLF7KUZJVT77DVN43CUYTXBDR',941,1795543201080),
('Q3DHKRXT5OTAKASY5RDVGRFVZE','zk_recycle shardid ZYLF7KUZJVT77DVN43CUYTXBDR',942,1795539632700);
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
  ) AS shards LEFT JOIN id_alloc_deleted AS deleted ON deleted.app_id = appId AND deleted.shard_id = shards.shard
;
