-- What the lists of an embedded server held when it was stopped in order. Its next
-- start takes all out, in the transaction that reads it; after a crash there is none.
--
-- +goose Up

CREATE TABLE IF NOT EXISTS id_alloc_leftover (
  app_id      INTEGER NOT NULL, -- 0..255
  shard_id    INTEGER NOT NULL, -- 0..63
  first_index INTEGER NOT NULL,
  last_index  INTEGER NOT NULL,
  max_id      INTEGER NOT NULL, -- the list's, then: should it be raised, the rest is not used
  PRIMARY KEY (app_id, shard_id, first_index)
) STRICT, WITHOUT ROWID;
