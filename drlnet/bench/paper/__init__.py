"""`drlnet bench paper`: the experiments of Furukawa and Matsutani, arXiv 2110.13506."""
