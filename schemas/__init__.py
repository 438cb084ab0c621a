"""What every artefact is: contracts between the stages, and the errors that name what broke them."""
