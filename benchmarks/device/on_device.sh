#!/usr/bin/env bash
# The project on a machine with a GPU, from first contact to the kernel table, in steps of their own
# limits. Run it in the checkout's root after benchmarks/device/prepare.sh:
#   bash benchmarks/device/on_device.sh
#   STEPS="facts contact ceilings correctness table command corpus"   which, in this order
#   TOTAL=545            seconds for all of them; the table has what the others leave
#   ROWS=8,1,16,2        sizes of the table in this order; 2 is Mirage's row
#   ONLY="rms_norm gqa"  programs of the table and of correctness
#   SIDES=ours,torch     sides of the table
#   CORPUS="softmax_attention swiglu"   functions of benchmarks/optimize.py
#   FORCE=1              goes on where first contact fails; without it the time is kept
#   DRY=1                all steps, small, on a CPU: the plumbing and nothing else
#   PYTHON=python3       a Python that has jax
#   OUT=/tmp/on_device   a folder for a log of each step and table.txt; a later run adds to them. A dry
#                        run has /tmp/on_device-dry, so that none of its figures is among those
# The exit status is 0 where every step ended well, 1 where a step failed, as correctness does where a
# kernel is wrong, 2 where none failed and the time of some was over, 3 where there is no GPU that is
# described, and 64 where it was called wrongly and nothing ran.
set -u
began=$SECONDS failed=() late=()
ALL_STEPS="facts contact ceilings correctness table command corpus"
STEPS=${STEPS:-$ALL_STEPS}
TOTAL=${TOTAL:-545} DRY=${DRY:-} ROWS=${ROWS:-8,1,16,2} ONLY=${ONLY:-} SIDES=${SIDES:-ours,torch}
CORPUS=${CORPUS:-rms_norm_linear softmax_attention swiglu diagonal_of_product weight_norm_linear}
PYTHON=${PYTHON:-python3}
root=$PWD
scripts=$root/benchmarks/device
temporary=${TMPDIR:-/tmp}
OUT=${OUT:-$temporary/on_device${DRY:+-dry}}
site=$temporary/aiosearch-site${DRY:+-dry} # a dry run installs no wheels

refuse() { echo "$*" >&2; exit 64; }
[ -e "$scripts/on_device.sh" ] || refuse "run it in the root of a checkout of aiosearch, not in $root"
for word in $STEPS; do
  case " $ALL_STEPS " in
    *" $word "*) ;;
    *) refuse "STEPS has no step $word: the steps are $ALL_STEPS" ;;
  esac
done
mkdir -p "$OUT" 2>/dev/null && { : >>"$OUT/errors.txt"; } 2>/dev/null ||
  refuse "$OUT cannot be written: OUT names another folder for the logs"
mkdir -p "$temporary/aiosearch-caches" 2>/dev/null ||
  refuse "$temporary cannot be written: TMPDIR names another folder for what is temporary"
"$PYTHON" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("jax"))' 2>/dev/null ||
  refuse "$PYTHON has no jax: PYTHON names one that has"
export OUT DRY PYTHONUNBUFFERED=1 XDG_CACHE_HOME=$temporary/aiosearch-caches
export XLA_PYTHON_CLIENT_PREALLOCATE=false TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-1}

say() { printf '%4ds  %s\n' $((SECONDS - began)) "$*"; }
left() { echo $((TOTAL - (SECONDS - began))); }
has() { case " $STEPS " in *" $1 "*) true ;; *) false ;; esac; }

# step NAME SECONDS COMMAND ...: what it prints goes to $OUT/NAME.log; nothing it does ends this, and
# how it ended counts in the exit status.
step() {
  local name=$1 seconds=$2 code
  shift 2
  [ "$seconds" -le "$(left)" ] || seconds=$(left)
  if [ "$seconds" -lt 5 ]; then
    echo "### ended before it began: no time was left" >>"$OUT/$name.log"
    late+=("$name")
    return 124
  fi
  say "$name: at most $seconds s: $*"
  timeout -k 5 "$seconds" "$@" >>"$OUT/$name.log" 2>"$OUT/errors.tmp" </dev/null
  code=$?
  tail -c 20000 "$OUT/errors.tmp" >>"$OUT/errors.txt"
  rm -f "$OUT/errors.tmp"
  [ $code = 124 ] || [ $code = 137 ] && echo "### ended after $seconds s" >>"$OUT/$name.log"
  echo "### exit code $code" >>"$OUT/$name.log"
  say "$name: exit code $code"
  case $code in
    0) ;;
    124) late+=("$name") ;;
    *) failed+=("$name") ;; # 137 too: killed from outside, or deaf to what ends it
  esac
  return $code
}
# Prints the closing table of all logs.
table() {
  "$PYTHON" "$scripts/closing.py" "$OUT" >"$OUT/table.txt" 2>>"$OUT/errors.txt" || failed+=(closing)
  cat "$OUT/table.txt"
}

say "steps $STEPS, $TOTAL s, commit $(cat .whl/commit.txt 2>/dev/null || echo unknown)"
if [ ! -e "$site/.ready" ]; then
  mkdir -p "$site"
  if compgen -G '.whl/*.whl' >/dev/null && [ -z "$DRY" ]; then
    "$PYTHON" -m pip install -q --disable-pip-version-check --no-index --no-deps --no-compile \
      --no-cache-dir --upgrade --target "$site" .whl/*.whl || { say "the wheels do not install"; exit 1; }
  fi
  "$PYTHON" "$scripts/distributions.py" "$site" || { say "the plugins cannot be declared"; exit 1; }
  touch "$site/.ready"
fi
PYTHONPATH=$site:$root:$root/plugins/interleaved:$root/plugins/sockets:$root/plugins/stealing:$root/benchmarks
dry=()
if [ -n "$DRY" ]; then
  export JAX_PLATFORMS=cpu
  dry=(--dry)
  mkdir -p "$temporary/aiosearch-dry"
  cp "$scripts/dry.py" "$temporary/aiosearch-dry/sitecustomize.py"
  PYTHONPATH=$temporary/aiosearch-dry:$PYTHONPATH
fi
export PYTHONPATH
programs=()
for name in $ONLY; do programs+=(--only "$name"); done

if has facts; then
  step facts 20 bash -c 'nvidia-smi --query-gpu=name,memory.total,memory.used,driver_version,clocks.sm,clocks.max.sm --format=csv,noheader; nvcc --version | tail -2; lscpu | grep -E "Model name|^CPU\(s\)"; free -g | head -2; true'
  step facts 40 "$PYTHON" "$scripts/facts.py" "${dry[@]}"
  if [ $? = 3 ]; then table; say "there is no GPU that is described"; exit 3; fi
fi
if has contact; then
  step contact "$([ -n "$DRY" ] && echo 200 || echo 60)" "$PYTHON" "$scripts/first_contact.py" "${dry[@]}"
  if [ $? != 0 ] && [ -z "${FORCE:-}" ]; then
    table; say "first contact fails: the rest of the time is kept (FORCE=1 goes on)"; exit 1
  fi
fi
if has ceilings && [ -z "$DRY" ]; then # a CPU takes minutes for products of that size
  step ceilings 40 "$PYTHON" "$scripts/ceilings.py"
fi
if has correctness; then
  step correctness 130 "$PYTHON" "$scripts/correctness.py" --seconds 120 "${programs[@]}" "${dry[@]}"
fi
later=0 function_limit=75 command_limit=50
[ -z "$DRY" ] || function_limit=150 command_limit=150
has corpus && later=$((later + function_limit))
has command && later=$((later + command_limit))
if has table; then
  limit=$(($(left) - later))
  [ -z "$DRY" ] || { ROWS=8 limit=150; [ ${#programs[@]} -gt 0 ] || programs=(--only rms_norm --only gqa); }
  step table "$limit" "$PYTHON" "$scripts/table.py" --seconds $((limit - 4)) --rows "$ROWS" --sides "$SIDES" \
    "${programs[@]}" "${dry[@]}"
fi
if has command; then
  small=()
  [ -z "$DRY" ] || small=(--shape row=1 --shape feature=256 --shape column=128)
  rm -f "$temporary/faster.py"
  step command $command_limit "$PYTHON" -m aiosearch optimize rms_norm --target cuda --effort quick --emit "$temporary/faster.py" "${small[@]}"
  [ ! -e "$temporary/faster.py" ] || cat "$temporary/faster.py" >"$OUT/faster.py.txt"
fi
# torch.compile takes longer than optimize does, and the table has torch already.
without_torch='import runpy, sys; sys.modules["torch"] = None; del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")'
if has corpus; then
  # shellcheck disable=SC2086
  step corpus $function_limit "$PYTHON" -c "$without_torch" benchmarks/optimize.py --target cuda --seconds 1 $([ -n "$DRY" ] && echo diagonal_of_product || echo $CORPUS)
fi
table
if [ ${#failed[@]} -gt 0 ]; then say "the end; what failed: ${failed[*]}"; exit 1; fi
if [ ${#late[@]} -gt 0 ]; then say "the end; what ran out of time: ${late[*]}"; exit 2; fi
say "the end"
