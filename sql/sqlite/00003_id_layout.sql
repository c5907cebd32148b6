-- Table id_layout: the layout and epoch that each kind of IDs has been issued
-- with. Its rows are written once and never changed.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS id_layout (
  kind        TEXT NOT NULL, -- snowflake or uid
  layout      TEXT NOT NULL, -- widths and epoch, as text
  recorded_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), -- UTC
  PRIMARY KEY (kind)
) STRICT, WITHOUT ROWID;
