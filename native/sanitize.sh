#!/bin/sh
# Build the native engines with AddressSanitizer and UndefinedBehaviorSanitizer and run their tests with that build.
# Usage, from the root of the checkout with the virtual environment active: sh native/sanitize.sh [pytest arguments]
set -e
build=build/sanitize
package=$(python -c 'import importlib.util as u; print(u.find_spec("railwright._native").origin)')
cmake -S native -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DPython_EXECUTABLE="$(command -v python)" \
  -Dnanobind_DIR="$(python -m nanobind --cmake_dir)" \
  -DCMAKE_CXX_FLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined" >/dev/null
cmake --build "$build"
# A copy of the package with the other module: nobody else's runs are disturbed.
rm -rf "$build/site"
mkdir -p "$build/site"
cp -r src/railwright "$build/site/"
cp "$build"/"$(basename "$package")" "$build/site/railwright/"
cat > "$build/site/sitecustomize.py" <<'PY'
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
PY
libraries="$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libubsan.so) $(c++ -print-file-name=libstdc++.so)"
if [ $# -eq 0 ]; then set -- tests/simulate/packet tests/simulate/test_routing.py -n0; fi
LD_PRELOAD="$libraries" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH="$build/site" \
  python -m pytest "$@"
