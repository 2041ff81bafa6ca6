#!/usr/bin/env bash
# Makes what the benchmark needs: Debian's nginx, h2load and wrk, and benchmarks/.venv with the other servers in it.
#   benchmarks/setup.sh        install (does only what is missing)
#   benchmarks/setup.sh export make benchmarks/.venv-export, which engines.py has its network made in
#   benchmarks/setup.sh lock   write requirements/bench.txt anew from requirements/bench.in
set -euo pipefail
cd "$(dirname "$0")/.."

lock() {
    uv pip compile --quiet --upgrade --generate-hashes --python-version 3.11 \
        --no-emit-index-url --no-emit-find-links --override benchmarks/overrides.txt \
        --custom-compile-command "benchmarks/setup.sh lock" -o requirements/bench.txt requirements/bench.in
}

programs() {
    local missing=()
    command -v nginx >/dev/null || missing+=(nginx)
    command -v h2load >/dev/null || missing+=(nghttp2-client)
    command -v wrk >/dev/null || missing+=(wrk)
    [ ${#missing[@]} -eq 0 ] && return
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

environment() {
    local stamp=benchmarks/.venv/requirements.sha256
    if [ -f "$stamp" ] && sha256sum --quiet --check "$stamp" >/dev/null 2>&1; then return; fi
    "${PYTHON:-python3.11}" -m venv --clear benchmarks/.venv
    benchmarks/.venv/bin/pip install --quiet --no-deps --require-hashes -r requirements/bench.txt
    sha256sum requirements/bench.txt >"$stamp"
}

# Triton's Python backend runs a stub built for one Python version; the wheel holds one for each, beside the backend.
triton_stub() {
    local version site
    version=$(benchmarks/.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    site=$(benchmarks/.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp "$site/pytriton/tritonserver/python_backend_stubs/$version/triton_python_backend_stub" \
        "$site/pytriton/tritonserver/backends/python/"
    chmod +x "$site"/pytriton/tritonserver/bin/tritonserver \
        "$site"/pytriton/tritonserver/backends/python/triton_python_backend_stub
}

messages() {
    mkdir -p benchmarks/generated
    benchmarks/.venv/bin/python -m grpc_tools.protoc -I benchmarks/protos \
        --python_out=benchmarks/generated --pyi_out=benchmarks/generated benchmarks/protos/*.proto
}

# For engines.py alone: TensorFlow and the converter to ONNX.
exporter() {
    local stamp=benchmarks/.venv-export/requirements.sha256
    if [ -f "$stamp" ] && sha256sum --quiet --check "$stamp" >/dev/null 2>&1; then return; fi
    "${PYTHON:-python3.11}" -m venv --clear benchmarks/.venv-export
    benchmarks/.venv-export/bin/pip install --quiet --no-deps --require-hashes -r requirements/export.txt
    sha256sum requirements/export.txt >"$stamp"
}

if [ "${1:-install}" = lock ]; then lock; exit; fi
if [ "${1:-install}" = export ]; then exporter; exit; fi
programs
environment
triton_stub
messages
