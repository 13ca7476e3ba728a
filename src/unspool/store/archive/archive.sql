-- The archive: the bytes of files as they were seen, in compressed frames. It needs nothing but itself to be read.
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  home TEXT NOT NULL,                -- the folder it was found in
  path TEXT NOT NULL,                -- absolute
  generation INTEGER NOT NULL,
  kind TEXT NOT NULL,
  project TEXT,
  session_id TEXT,
  agent_id TEXT,
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  modified INTEGER NOT NULL,         -- nanoseconds since 1970
  UNIQUE (path, generation)
) STRICT;

-- Frames follow each other without gap. One begins where the rows of the store end: what comes after is a torn line.
CREATE TABLE frames (
  source_id INTEGER NOT NULL REFERENCES sources (id),
  start INTEGER NOT NULL,            -- the first byte's place in the file
  length INTEGER NOT NULL,           -- bytes in the file
  data BLOB NOT NULL                 -- a zstd frame with a checksum
) STRICT;
CREATE UNIQUE INDEX frames_by_place ON frames (source_id, start);
