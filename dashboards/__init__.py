"""Web pages, reports and charts of workspaces; the package only reads artefacts."""
