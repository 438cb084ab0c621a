-- Which texts occur in several places?
-- Files with the same content (git blob) under several paths or repositories. Without deduplication, training would
-- read the text once per place.
SELECT s.blob, count(DISTINCT s.repository || ':' || s.path) AS places,
       count(DISTINCT s."commit") AS commits,
       min(s.repository || ':' || s.path) AS one, max(s.repository || ':' || s.path) AS another
FROM document_sources s
GROUP BY s.blob
HAVING places > 1
ORDER BY places DESC, commits DESC, s.blob
LIMIT 50
