"""How documents are made of changes.

render.py     the registry: a change and names of families in, documents and counts out
v2.py         the file before and after a commit
v3.py         what a commit changed, then the whole file
changes.py    hunks as removed and added lines
header.py     facts of a change as plain lines or as a Doxygen block
chat.py       a conversation, a part a turn
comments.py   the comment syntax of the languages
sheet.py      a document in the making
check.py      what every document keeps
write.py      documents on disk
"""
