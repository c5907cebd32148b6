-- Table shardid_number, as in MySQL; see sql/mysql/00012_number.sql.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS shardid_number (
  biz_tag    TEXT NOT NULL PRIMARY KEY,
  pattern    TEXT NOT NULL, -- literal text, date fields and {seq:N}
  reset_by   TEXT NOT NULL, -- day, month, year or none
  zone       TEXT NOT NULL, -- in which days begin
  overflow   TEXT NOT NULL, -- widen or refuse
  created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
