-- What did one training step read?
-- Step 3 of syntax, row by row and document by document, down to commit and licence.
SELECT specialist, position, pack_id, family, domain, doc, document_id, tokens, repository, "commit", file, licence
FROM consumed('templates/*/syntax', 3)
