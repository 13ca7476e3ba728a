-- What was collected, and what waits to be sent. Not a part of the store: that may be deleted and made again at any
-- time, and nothing else on this machine knows what was confirmed.

-- Object stores that are collected to, each for itself.
CREATE TABLE targets (
  id INTEGER PRIMARY KEY,
  url TEXT NOT NULL,
  org TEXT NOT NULL,
  device TEXT NOT NULL,
  unpublished INTEGER NOT NULL DEFAULT 0, -- 1: something was confirmed since the manifest was written
  confirmed INTEGER,                 -- when something was last confirmed: milliseconds since 1970
  UNIQUE (url, org, device)
) STRICT;

-- One for each source file.
CREATE TABLE streams (
  id INTEGER PRIMARY KEY,
  target_id INTEGER NOT NULL REFERENCES targets (id),
  stream TEXT NOT NULL,              -- its name
  path TEXT NOT NULL,                -- the file
  sequence INTEGER NOT NULL DEFAULT 0, -- of the last segment made
  digest TEXT NOT NULL,              -- of that segment
  sent INTEGER NOT NULL DEFAULT 0,   -- of the last segment confirmed
  sent_digest TEXT NOT NULL,
  sent_lines INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,   -- the store's generations up to this one are in segments, whole
  adopted INTEGER NOT NULL DEFAULT 0, -- 1: somebody else has sent segments of it too
  UNIQUE (target_id, stream)
) STRICT;

-- How far each generation of a source is in segments: made, not yet confirmed.
CREATE TABLE spans (
  stream_id INTEGER NOT NULL REFERENCES streams (id),
  generation INTEGER NOT NULL,       -- as the segments say
  "end" INTEGER NOT NULL,
  head TEXT NOT NULL,                -- keyed, as in the segments
  boundary TEXT NOT NULL,
  seen TEXT NOT NULL,                -- what the store said of the file then; while it says the same there is nothing to do
  PRIMARY KEY (stream_id, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX spans_by_seen ON spans (stream_id, seen);

-- Segments that are not confirmed.
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY,            -- in the order made
  stream_id INTEGER NOT NULL REFERENCES streams (id),
  sequence INTEGER NOT NULL,
  name TEXT NOT NULL,                -- of the object
  digest TEXT NOT NULL,
  priority INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  redactions INTEGER NOT NULL,
  size INTEGER NOT NULL,             -- bytes of the object
  data BLOB NOT NULL,
  UNIQUE (stream_id, sequence)
) STRICT;
