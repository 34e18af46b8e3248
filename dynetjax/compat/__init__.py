"""Programs that were written for DyNet: its flags, its first release, Python 2.

`dynetjax.dropin`, one floor up, gives them DyNet's module names.
"""
