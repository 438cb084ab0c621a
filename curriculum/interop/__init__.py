"""Other tools' formats, both ways: ids, boundaries and masks come back byte for byte."""
