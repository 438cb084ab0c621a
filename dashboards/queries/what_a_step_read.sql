-- What did one training step read?
-- Step 3 of syntax, row by row and document by document, down to commit and licence.
SELECT specialist, position, pack_id, family, domain, doc, document_id, tokens, repository, path, "commit", licence
FROM consumed('templates/*/syntax', 3)
