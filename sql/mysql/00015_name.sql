-- Worker IDs as a service: names, which are spaces of worker IDs with a layout each, and the
-- last lease of each worker ID of a name. Rows of leases are never deleted: the next lease
-- begins above what they say.
--
-- Runs any number of times, and beside replicas of an older shardid.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_name (
  name        varchar(64) NOT NULL,
  epoch_ms    bigint      NOT NULL COMMENT 'time in the IDs counts from it, Unix ms',
  worker_bits int         NOT NULL,
  seq_bits    int         NOT NULL,
  hold_ms     bigint      NOT NULL COMMENT 'how long a holder may go on without shardid',
  was_hold_ms bigint      NOT NULL DEFAULT 0 COMMENT 'an earlier, longer hold',
  set_at      bigint      NOT NULL DEFAULT 0 COMMENT 'leases before it may have that one, Unix ms',
  low_hold_ms bigint      NOT NULL DEFAULT 0 COMMENT 'an earlier, shorter hold',
  low_until   bigint      NOT NULL DEFAULT 0 COMMENT 'until when leases have that one, Unix ms',
  made_at     bigint      NOT NULL COMMENT 'Unix ms',
  deleted_at  bigint      NOT NULL DEFAULT 0 COMMENT 'Unix ms, 0: it is not; its layout and its leases stay',
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shardid_lease (
  name       varchar(64)  NOT NULL,
  worker_id  bigint       NOT NULL,
  instance   varchar(128) NOT NULL COMMENT 'what the holder calls itself, empty: it did not say',
  secret     varchar(64)  NOT NULL COMMENT 'SHA-256 of what the holder renews with, in hex, empty: the lease was released',
  after_ms   bigint       NOT NULL COMMENT 'IDs of the lease have a later time, Unix ms',
  until_ms   bigint       NOT NULL COMMENT 'and this one at most; those of the next lease have a later one, Unix ms',
  granted_at bigint       NOT NULL COMMENT 'Unix ms',
  renewed_at bigint       NOT NULL COMMENT 'Unix ms, 0: never',
  PRIMARY KEY (name, worker_id),
  KEY shardid_lease_instance (name, instance),
  KEY shardid_lease_until (name, until_ms)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
