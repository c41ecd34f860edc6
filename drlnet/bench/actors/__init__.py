"""`drlnet bench actors`: how many actors one server holds beside a learner."""
