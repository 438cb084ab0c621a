-- Who uses what: a specialist may continue from a run that lies with another. A mark is runs+templates@demo+syntax.
CREATE TABLE internal.places AS
SELECT m.names[1] AS stage, array_to_string(m.names[2:], '+') AS place, replace(m.names[2], '@', '/') AS specialist,
       m.names[3] AS phase, m.path
FROM (SELECT string_split(mark, '+') AS names, path FROM marks) m
JOIN artefacts a ON a.path = m.path
WHERE m.names[1] IN ('mixtures', 'runs');
