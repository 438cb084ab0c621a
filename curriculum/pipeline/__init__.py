"""The pipeline of a specialist's curriculum: a config resolved into a plan, and the plan carried out."""
