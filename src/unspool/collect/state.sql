-- What was collected, and what waits to be sent. Not a part of the store: that may be deleted and made again at any
-- time, and nothing else on this machine knows what was confirmed.

-- Object stores that are collected to, each for itself.
CREATE TABLE targets (
  id INTEGER PRIMARY KEY,
  url TEXT NOT NULL,
  org TEXT NOT NULL,
  device TEXT NOT NULL,
  unpublished INTEGER NOT NULL DEFAULT 0, -- 1: something was confirmed since the heartbeat was written
  confirmed INTEGER,                 -- when something was last confirmed: milliseconds since 1970
  asked INTEGER NOT NULL DEFAULT 0,  -- 1: it is known what this device has sent; else the store must be asked
  chain_day TEXT NOT NULL DEFAULT '2000-01-01', -- in the name of the next segment of the device
  chain_last TEXT NOT NULL DEFAULT '', -- the name of the last segment confirmed
  chain_sequence INTEGER NOT NULL DEFAULT 0, -- of that segment
  chain_digest TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000000000000000000000000000',
  redactions INTEGER NOT NULL DEFAULT 0, -- secrets that were replaced in what was confirmed
  looked INTEGER,                    -- when a collector last looked at the files: milliseconds since 1970
  failed INTEGER NOT NULL DEFAULT 0, -- files that it could not read then
  refused INTEGER NOT NULL DEFAULT 0, -- attempts in a row that the store did not answer or refused
  UNIQUE (url, org, device)
) STRICT;

-- One for each source file.
CREATE TABLE streams (
  id INTEGER PRIMARY KEY,
  target_id INTEGER NOT NULL REFERENCES targets (id),
  stream TEXT NOT NULL,              -- its name
  path TEXT NOT NULL,                -- the file
  sequence INTEGER NOT NULL DEFAULT 0, -- of the last part made
  digest TEXT NOT NULL,              -- of that part
  sent INTEGER NOT NULL DEFAULT 0,   -- of the last part confirmed
  sent_digest TEXT NOT NULL,
  sent_lines INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,   -- the store's generations up to this one are in parts, whole
  adopted INTEGER NOT NULL DEFAULT 0, -- 1: somebody else has sent parts of it too
  "at" TEXT NOT NULL DEFAULT '',     -- the segment that has the last part confirmed: its name without folder and suffix
  UNIQUE (target_id, stream)
) STRICT;

-- How far each generation of a source is in parts: made, not yet confirmed.
CREATE TABLE spans (
  stream_id INTEGER NOT NULL REFERENCES streams (id),
  generation INTEGER NOT NULL,       -- as the parts say
  "end" INTEGER NOT NULL,
  head TEXT NOT NULL,                -- keyed, as in the parts
  boundary TEXT NOT NULL,
  seen TEXT NOT NULL,                -- what the store said of the file then; while it says the same there is nothing to do
  PRIMARY KEY (stream_id, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX spans_by_seen ON spans (stream_id, seen);

-- The same, of confirmed parts only: what is left when parts that wait are dropped.
CREATE TABLE sent_spans (
  stream_id INTEGER NOT NULL REFERENCES streams (id),
  generation INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  head TEXT NOT NULL,
  boundary TEXT NOT NULL,
  PRIMARY KEY (stream_id, generation)
) STRICT, WITHOUT ROWID;

-- Parts that are not confirmed.
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY,            -- in the order made
  stream_id INTEGER NOT NULL REFERENCES streams (id),
  sequence INTEGER NOT NULL,
  name TEXT NOT NULL,                -- of the object, if it is a segment of an earlier version; else nothing
  digest TEXT NOT NULL,
  priority INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  redactions INTEGER NOT NULL,
  size INTEGER NOT NULL,             -- bytes of `data`
  data BLOB NOT NULL,                -- compressed
  length INTEGER NOT NULL DEFAULT 0, -- bytes in the source
  source_generation INTEGER NOT NULL DEFAULT 0, -- the store's; 0 for a side file
  packed INTEGER NOT NULL DEFAULT 0, -- 1: it is in the segment in `packed`
  UNIQUE (stream_id, sequence)
) STRICT;

-- The segment that is being sent.
CREATE TABLE packed (
  target_id INTEGER PRIMARY KEY REFERENCES targets (id),
  name TEXT NOT NULL,                -- of the object
  digest TEXT NOT NULL,
  next_day TEXT NOT NULL,            -- in the name of the segment after it
  data BLOB NOT NULL
) STRICT;
