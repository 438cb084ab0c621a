-- Which texts stand in several places?
-- Files of one content (a git blob) under several paths or repositories; each would be seen as often.
SELECT s.blob, count(DISTINCT s.repository || ':' || s.path) AS places,
       count(DISTINCT s."commit") AS commits,
       min(s.repository || ':' || s.path) AS one, max(s.repository || ':' || s.path) AS another
FROM document_sources s
GROUP BY s.blob
HAVING places > 1
ORDER BY places DESC, commits DESC, s.blob
LIMIT 50
