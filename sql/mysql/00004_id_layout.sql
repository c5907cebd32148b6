-- Table id_layout: the layout and epoch that each kind of IDs has been issued
-- with. Its rows are written once and never changed.
--
-- +goose NO TRANSACTION
-- +goose Up

CREATE TABLE IF NOT EXISTS id_layout (
  kind        varchar(32)  NOT NULL COMMENT 'snowflake or uid',
  layout      varchar(255) NOT NULL COMMENT 'widths and epoch, as text',
  recorded_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (kind)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
