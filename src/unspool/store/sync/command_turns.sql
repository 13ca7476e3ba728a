-- Sessions count the turns that begin with a command. What began a turn before this version was decided by other rules:
-- all sessions are read again for their facts and for the index, which holds where turns begin.
ALTER TABLE sessions ADD COLUMN command_turns INTEGER NOT NULL DEFAULT 0; -- turns begun by a command or an accepted plan
ALTER TABLE agent_meta ADD COLUMN is_fork INTEGER; -- whether it continues its parent's conversation
ALTER TABLE agent_meta ADD COLUMN name TEXT; -- its name among other agents
ALTER TABLE agent_meta ADD COLUMN model TEXT; -- as it was asked for: `inherit` is its parent's
ALTER TABLE agent_meta ADD COLUMN parent_agent_id TEXT; -- the agent that started it, if the session did not
ALTER TABLE agent_meta ADD COLUMN stopped_by_user INTEGER; -- whether a person stopped it
DELETE FROM states;
UPDATE sources SET size = -1 WHERE kind = 'session' AND gone IS NULL; -- no file has this size: it is looked at again
DELETE FROM passages;
DELETE FROM prompts;
DELETE FROM indexed;
INSERT INTO words (words) VALUES ('delete-all');
INSERT OR IGNORE INTO unindexed SELECT id FROM sources WHERE kind IN ('session', 'agent', 'journal');
