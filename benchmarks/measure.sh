#!/usr/bin/env bash
# The whole comparison in one command: every script, whichever of them misses. Arguments go to run.py.
# The machine should have nothing else to do; each report says whether it had.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
"${PYTHON:-python3.11}" benchmarks/run.py "$@" || failed=1
"${PYTHON:-python3.11}" benchmarks/heavy.py || failed=1
"${PYTHON:-python3.11}" benchmarks/idle.py || failed=1
.venv/bin/python benchmarks/border.py || failed=1
.venv/bin/python benchmarks/loading.py || failed=1
.venv/bin/python benchmarks/engines.py || failed=1
.venv/bin/python benchmarks/crosscheck.py || failed=1
.venv/bin/python benchmarks/coverage.py || failed=1
exit $failed
