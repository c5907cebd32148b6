-- Table leaf_alloc: one row per segment tag, as Leaf has it. A segment is
-- [max_id before, max_id after).
--
-- +goose Up

CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     TEXT    NOT NULL,
  max_id      INTEGER NOT NULL DEFAULT 1, -- first ID not handed out
  step        INTEGER NOT NULL, -- smallest segment, in IDs
  description TEXT,
  update_time TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP, -- set by every UPDATE of shardid
  PRIMARY KEY (biz_tag)
) STRICT, WITHOUT ROWID;
