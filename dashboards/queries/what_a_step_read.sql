-- What did a training step read?
-- The rows, documents, commits and licences of step 3 of syntax.
SELECT specialist, position, pack_id, family, domain, doc, document_id, tokens, repository, path, "commit", licence
FROM consumed('templates/*/syntax', 3)
