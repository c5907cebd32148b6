-- Sequences: spaces of keys whose numbers rise. Keys are spread over the sections of their
-- space; a section is a counter, and says which life of Redis gives its numbers.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

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
  taken_at    bigint      NOT NULL DEFAULT 0 COMMENT 'Unix ms, 0: never',
  life        varchar(80) NOT NULL COMMENT 'of the section in the Redis that gives its numbers: replication ID and since when, empty: none yet, ?: not known',
  term        bigint      NOT NULL DEFAULT 0 COMMENT 'under which it does, the first number that was taken for it',
  open        int         NOT NULL DEFAULT 0 COMMENT '1: no lease of an earlier term lives',
  PRIMARY KEY (space, section)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_fence (
  server     varchar(80)  NOT NULL COMMENT 'replication ID of a Redis that may give numbers',
  number     bigint       NOT NULL COMMENT 'a new one with every section that it loses: leases under another one cannot be renewed',
  place      varchar(255) NOT NULL COMMENT 'how it is reached',
  renewed_at bigint       NOT NULL COMMENT 'Unix ms',
  PRIMARY KEY (server)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_sequence_deleted (
  name       varchar(64) NOT NULL,
  max_id     bigint      NOT NULL COMMENT 'highest number that was taken before',
  deleted_at bigint      NOT NULL COMMENT 'Unix ms',
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
