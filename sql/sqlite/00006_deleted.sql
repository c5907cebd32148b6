-- What was handed out of apps and tags before they were deleted: should one come
-- back under its old ID or name, by whatever road, it goes on above that. Rows are
-- read by every allocation and never removed.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS id_alloc_deleted (
  app_id     INTEGER NOT NULL, -- 0..255
  shard_id   INTEGER NOT NULL, -- 0..63
  max_id     INTEGER NOT NULL, -- highest index handed out before
  deleted_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (app_id, shard_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS leaf_alloc_deleted (
  biz_tag    TEXT    NOT NULL,
  max_id     INTEGER NOT NULL, -- first ID not handed out before
  deleted_at TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) STRICT, WITHOUT ROWID;

-- A DELETE by hand is remembered too.

-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS id_alloc_remember BEFORE DELETE ON id_alloc
BEGIN
  INSERT INTO id_alloc_deleted (app_id, shard_id, max_id) VALUES (OLD.app_id, OLD.shard_id, OLD.max_id)
  ON CONFLICT (app_id, shard_id) DO UPDATE SET max_id = MAX(max_id, excluded.max_id), deleted_at = CURRENT_TIMESTAMP;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER IF NOT EXISTS leaf_alloc_remember BEFORE DELETE ON leaf_alloc
BEGIN
  INSERT INTO leaf_alloc_deleted (biz_tag, max_id) VALUES (OLD.biz_tag, OLD.max_id)
  ON CONFLICT (biz_tag) DO UPDATE SET max_id = MAX(max_id, excluded.max_id), deleted_at = CURRENT_TIMESTAMP;
END;
-- +goose StatementEnd
