"""Models of judges and items, each fitted from arrays: what aggregators are made of.

``factor_analysis``, ``mixture``, ``cp`` (third moment to components), ``observation`` (judges that are not Gaussian),
``dependence`` (judges that depend on one another), ``latent_classes`` and ``annotators`` (judges that answer
independently given a class), ``answers`` (the packing these share), ``hypotheses`` (a few labels).
"""
