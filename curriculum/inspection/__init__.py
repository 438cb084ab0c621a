"""Published artefacts as typed views, for the command line, reports and pages."""
