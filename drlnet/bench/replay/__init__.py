"""`drlnet bench replay`: a learner's and actors' work on our replay and on others', in turns."""
