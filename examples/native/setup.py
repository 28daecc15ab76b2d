"""Build the example extension: `python setup.py build_ext --inplace`."""

from setuptools import Extension, setup

import commitlog

setup(
    name="ticks",
    ext_modules=[
        Extension(
            "ticks",
            ["ticks.c"],
            include_dirs=[commitlog.get_include()],
            extra_compile_args=["-O2", "-pthread"],
            extra_link_args=["-pthread"],
        )
    ],
)
