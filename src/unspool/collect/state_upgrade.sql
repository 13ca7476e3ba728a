-- Makes the state of version 1, which had a chain of segments for each stream, one of version 2. What waits there is sent
-- as it is. What the device has sent is known from its streams.
ALTER TABLE targets ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE targets ADD COLUMN chain_day TEXT NOT NULL DEFAULT '2000-01-01';
ALTER TABLE targets ADD COLUMN chain_last TEXT NOT NULL DEFAULT '';
ALTER TABLE targets ADD COLUMN chain_sequence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE targets ADD COLUMN chain_digest TEXT NOT NULL
  DEFAULT '0000000000000000000000000000000000000000000000000000000000000000';
ALTER TABLE streams ADD COLUMN "at" TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN source_generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
CREATE TABLE sent_spans (
  stream_id INTEGER NOT NULL REFERENCES streams (id),
  generation INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  head TEXT NOT NULL,
  boundary TEXT NOT NULL,
  PRIMARY KEY (stream_id, generation)
) STRICT, WITHOUT ROWID;
INSERT INTO sent_spans SELECT stream_id, generation, "end", head, boundary FROM spans;
CREATE TABLE packed (
  target_id INTEGER PRIMARY KEY REFERENCES targets (id),
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  next_day TEXT NOT NULL,
  data BLOB NOT NULL
) STRICT;
UPDATE targets SET asked = 1 WHERE id IN (SELECT target_id FROM streams WHERE sent > 0);
