-- How many documents were divided over several rows?
-- By data set: the number of documents, the number of documents in more than one row, and the largest number of rows
-- with pieces of the same document.
SELECT family, row_length, count(*) AS documents, count(*) FILTER (WHERE rows > 1) AS divided,
       max(rows) AS most_rows
FROM (
    SELECT family, row_length, rows_key, document_id, count(DISTINCT pack_id) AS rows
    FROM row_documents
    WHERE split = 'train'
    GROUP BY ALL
)
GROUP BY ALL
ORDER BY divided DESC, family, row_length
