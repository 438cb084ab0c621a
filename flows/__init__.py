"""When, where and how often: Prefect flows and the command line, which mirror curriculum verb for verb."""
