-- Makes a state of version 2 one of version 3, which also knows how the collector is.
ALTER TABLE targets ADD COLUMN redactions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE targets ADD COLUMN looked INTEGER;
ALTER TABLE targets ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE targets ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
