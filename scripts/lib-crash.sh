# Shared by the scripts that end drives or let their calls fail; sourced, never run.
# shellcheck shell=bash disable=SC2154

# What only a trap calls looks unreachable.
# shellcheck disable=SC2317

folder=
runner=

# Whatever happens: no daemon, no mount, no disk of this run remains.
clean_up() {
    local status=$? pid target
    trap - EXIT
    trap '' INT TERM HUP
    if [ -n "$runner" ]; then
        kill -KILL "$runner" 2>/dev/null || true
        wait "$runner" 2>/dev/null || true
    fi
    while IFS= read -r pid; do
        kill -KILL "$pid" 2>/dev/null || true
    done < <(grep -lszF -- "TMPDIR=$folder/" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3)
    detach_mounts_below "$folder" >/dev/null
    while IFS= read -r target; do
        umount -l -- "$target" || true
    done < <(awk -v below="$folder/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts)
    # Kept by the runner if there is something to look at.
    rm -rf -- "$folder/faults.so" "$folder/moto"
    rmdir -- "$folder" 2>/dev/null || say "The files of the run: $folder"
    exit "$status"
}

# Builds the programs unless told not to, and says where they are: CLOUDFS_BINARIES.
# Usage: prepare_programs <build: yes or no> <release: yes or no>
prepare_programs() {
    if [ "$2" = yes ]; then export CLOUDFS_BINARIES=$root/.build/release; fi
    export CLOUDFS_BINARIES=${CLOUDFS_BINARIES:-$root/.build/debug}
    if [ "$1" = yes ]; then
        need_packages "${build_packages[@]}"
        need_swift
        if [ "$2" = yes ]; then
            build_release
        else
            swift build --product cloudfs "${compiler_flags[@]}"
            swift build --product cloudfs-mount "${compiler_flags[@]}"
        fi
    fi
    [ -x "$CLOUDFS_BINARIES/cloudfs-mount" ] || fail "no program in $CLOUDFS_BINARIES"
}

# A folder for a run, which is cleaned up however the script ends.
make_run_folder() {
    folder=$(mktemp -d "${TMPDIR:-/tmp}/cloudfs-$1.XXXX")
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# Runs a module of Tests/Crash with its arguments, and ends with its status.
run_module() {
    local status=0
    # Waited for instead of called, or a signal would have to wait for the run.
    TMPDIR=$folder PYTHONPATH=$root/Tests/Crash \
        env --default-signal=INT,QUIT python3 -B -m "$@" </dev/null &
    runner=$!
    wait "$runner" || status=$?
    runner=
    exit "$status"
}
