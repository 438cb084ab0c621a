"""Web pages, reports and charts of workspaces. This package reads artefacts and builds none."""
