"""What is claimed, in the words of the report."""

RECURRING = "recurring document ids are refused"
POSITIONS = "positions restart at each boundary"
READS_POSITIONS = "positions come from the boundaries"
REPEATS = "the same input gives the same output"
REACHES = "the perturbation reaches the perturbed"
OUTPUTS = "outputs of a document don't see others"
EMBEDDING_GRADIENTS = "its embedding gradients don't see others"
FOREIGN_GRADIENTS = "gradients on others are exactly 0.0"
WEIGHT_GRADIENTS = "gradients of weights don't see others"
FUTURE = "outputs don't see the future"
FUTURE_GRADIENTS = "gradients on the future are exactly 0.0"
ALONE = "a document packed equals it alone"
SCORES = "scores of others are exactly -inf, their probabilities 0.0"
MASS = "attention mass on others is exactly 0.0"
CONVOLUTION = "a convolution is bitwise its document's alone, NaN around it"
STATE = "a state is bitwise its document's alone"
N_GRAMS = "n-grams hold their document's ids alone"
PER_TOKEN = "mixing weights follow from their own token"

FED = "the step is fed the rows of the file, and its loss is that of their tokens"
SCORED = "other documents' states, losses and gradients are unchanged"
MUTED = "an unscored document leaves no trace in two steps"
CHANGES_REACH = "changed documents change, and each scored document has a gradient"

PERTURBED = frozenset({OUTPUTS, EMBEDDING_GRADIENTS, FOREIGN_GRADIENTS, WEIGHT_GRADIENTS})
"""What other documents must not change, forward and backward."""
CAUSAL = frozenset({FUTURE, FUTURE_GRADIENTS})
