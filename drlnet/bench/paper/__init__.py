"""`drlnet bench paper`: what the network costs distributed reinforcement learning, and what each
remedy buys (Furukawa and Matsutani, arXiv 2110.13506).

Nothing is imported here, as in the package above.
"""
