-- Which region's IDs are issued; see sql/mysql/00017_region.sql.
--
-- +goose Up

ALTER TABLE shardid_deployment ADD COLUMN region TEXT NOT NULL DEFAULT '';
