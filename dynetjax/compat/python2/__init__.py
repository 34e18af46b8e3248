"""Programs in Python 2, converted when they are imported.

`convert` makes Python 3 of a file, `tree` changes what the new syntax means, `names`
and `library` have what the converted program calls.

In Python 2 a file takes and gives bytes, which are its text. Converted programs have
text instead, whose bytes are UTF-8: encoding and decoding as UTF-8 change nothing, and
files and `pickle` take both.
"""
