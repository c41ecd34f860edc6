"""Builds the native tests with warnings as errors and runs them."""

from __future__ import annotations

from native_build import BUILD, build, jobs, run


def test_native_suites() -> None:
    build()
    run("ctest", "--test-dir", str(BUILD), "--output-on-failure", "-j", jobs(), timeout_s=600)
