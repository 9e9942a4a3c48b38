#!/usr/bin/env bash
# Makes a checkout ready for a GPU machine without network, and says what to run there.
#   benchmarks/device/prepare.sh            (needs pip, no GPU)
# Wheels of what such a machine's Python 3.12 with jax and torch may lack come into .whl, which git
# ignores by .git/info/exclude; the scripts are tracked and travel with the checkout.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
exclude=$(git rev-parse --git-path info/exclude)
mkdir -p "$(dirname "$exclude")" .whl
touch "$exclude"
grep -qxF /.whl/ "$exclude" || echo /.whl/ >>"$exclude"

needed=("msgspec>=0.20" "z3-solver>=4.13,<6" "pytest-asyncio>=1.5" "anyio>=4.12")
missing=()
for requirement in "${needed[@]}"; do
  name=${requirement%%[<>=]*}
  wheels=(.whl/"${name//-/_}"-*.whl)
  [ ${#wheels[@]} = 1 ] && [ -s "${wheels[0]}" ] || missing+=("$requirement")
done
if [ ${#missing[@]} -gt 0 ]; then
  platforms=()
  for n in 39 38 35 34 31 28 27 24 17; do platforms+=(--platform "manylinux_2_${n}_x86_64"); done
  for old in manylinux2014_x86_64 manylinux2010_x86_64; do platforms+=(--platform "$old"); done
  rm -f .whl/*.whl # two versions of a package would stop the install
  "${PYTHON:-python3}" -m pip download -q --disable-pip-version-check --no-deps \
    --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" \
    -d .whl "${needed[@]}"
fi
git log -1 --format='%H %cI' >.whl/commit.txt
tree=$(git ls-files -co --exclude-standard -z | xargs -0 du -bc 2>/dev/null | tail -1 | cut -f1)
wheels=$(du -sb .whl | cut -f1)
printf 'tree %.1f MiB, .whl %.1f MiB\n' "$(awk "BEGIN {print $tree/1048576}")" "$(awk "BEGIN {print $wheels/1048576}")"
cat <<'TEXT'
On the GPU machine, in a copy of this checkout with .whl (which has to be taken along):
  all steps, 9 minutes:    bash benchmarks/device/on_device.sh                                (limit 580 s)
  the table alone:         STEPS="table" TOTAL=195 bash benchmarks/device/on_device.sh        (limit 215 s)
  other sizes afterwards:  STEPS="table" TOTAL=195 ROWS=1,16 bash benchmarks/device/on_device.sh
  without a GPU:           DRY=1 bash benchmarks/device/on_device.sh
It ends with a table; logs lie in $OUT. It stops early where first contact fails.
TEXT
