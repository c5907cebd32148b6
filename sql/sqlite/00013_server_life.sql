-- The column that MySQL has, always empty here; see sql/mysql/00013_server_life.sql.
--
-- +goose Up

ALTER TABLE shardid_deployment ADD COLUMN server_life TEXT NOT NULL DEFAULT '';
