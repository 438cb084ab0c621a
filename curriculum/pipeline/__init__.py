"""The pipeline of a specialist's curriculum, as a library.

    from curriculum.pipeline import Pipeline

    pipeline = Pipeline("workspace")
    built = pipeline.build("templates.demo", phase="syntax")
    runs = pipeline.train("templates.demo")

Read on in execute.py, the one loop over phases. config.py says what may be set, plan.py resolves it.
"""

from curriculum.pipeline.facade import Pipeline

__all__ = ["Pipeline"]
