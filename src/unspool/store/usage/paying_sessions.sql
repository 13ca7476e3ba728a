-- Brings the store from version 4 to 5: `answers` had the session that the lines name, and now has the one that pays
-- (`prices/bill.py`). What was added up by session is added up again.

UPDATE answers SET session_id = paying.id
FROM (
  SELECT s.id AS source_id, CASE
    WHEN s.session_id <> '' THEN s.session_id
    -- Of an agent's file beside its session: null keeps what the line says.
    WHEN s.kind = 'session' THEN replace(replace(s.path, rtrim(s.path, replace(s.path, '/', '')), ''), '.jsonl', '')
    END AS id FROM sources s
) paying
WHERE answers.source_id = paying.source_id AND paying.id IS NOT NULL AND answers.session_id IS NOT paying.id;

UPDATE answers SET session_id = (
  SELECT replace(replace(s.path, rtrim(s.path, replace(s.path, '/', '')), ''), '.jsonl', '')
  FROM sources s WHERE s.id = answers.source_id
)
WHERE coalesce(session_id, '') = '';

DELETE FROM remembered;
DELETE FROM spent;
INSERT OR IGNORE INTO unsummed SELECT DISTINCT source_id FROM answers;
