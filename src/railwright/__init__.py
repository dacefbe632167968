"""railwright: design, check, simulate, configure and operate the networks of AI data centers.

A plan is a handful of tables; every capability is a function from tables to tables. See ``railwright.tables``.
"""

from importlib.metadata import version

__version__ = version("railwright")
