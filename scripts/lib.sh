# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash disable=SC2034

# The root of the package, whatever the caller's working directory is.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What every build and every mount needs. The compiler and its libraries are named because
# Swift links with them and the toolchain's archive does not bring them.
build_packages=(
    binutils ca-certificates g++ git libarchive-dev libexpat1-dev libfuse3-dev libsqlite3-dev
    pkg-config zlib1g-dev
)
mount_packages=(fuse3)
# What the toolchain's own programs link with; only installed where they do not start.
toolchain_packages=(libcurl4-openssl-dev libncurses-dev tzdata)
# netpbm makes the photos and the video, groff the PDF: 20 MB together, ffmpeg and
# ghostscript would be 230 MB.
demo_packages=(attr groff netpbm)
test_packages=(
    acl attr bubblewrap curl file git libglib2.0-bin libheif-examples libimage-exiftool-perl
    libvips-tools python3 python3-venv rclone rsync s3fs shared-mime-info shellcheck sqlite3 strace
    util-linux vim
)

oldest_swift=6.1

# Under CI a warning is an error. Elsewhere not: the flag is part of every target's build, and
# alternating with a plain "swift build" would compile everything again each time.
compiler_flags=()
[ "${CI:-}" = true ] && compiler_flags=(-Xswiftc -warnings-as-errors)

say() { printf '%s\n' "$*"; }

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Prints the comment at the top of the calling script, which is its --help.
print_help() {
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
}

# Runs apt-get as root: directly, or through sudo. Nothing else here needs root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "missing packages: $packages_missing; install them as root, or install sudo"
    fi
}

package_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs those of the named Debian packages that are missing; silent and quick otherwise.
need_packages() {
    local name missing=()
    if ! command -v dpkg-query >/dev/null; then
        need_packages_elsewhere "$@"
        return
    fi
    for name in "$@"; do
        package_installed "$name" || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return
    packages_missing="${missing[*]}"
    say "Installing: $packages_missing"
    # The lists of packages may be absent (a fresh container) or stale: fetched once, here.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null \
        || fail "apt-get update failed; check the network, then run this again"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 install "${missing[@]}" </dev/null >/dev/null \
        || fail "apt-get could not install $packages_missing; its message is above"
}

# Not Debian: nothing is installed, but the tools that matter are looked for.
need_packages_elsewhere() {
    local missing=()
    command -v pkg-config >/dev/null || missing+=(pkg-config)
    pkg-config --exists fuse3 2>/dev/null || missing+=("libfuse 3 with headers")
    pkg-config --exists sqlite3 2>/dev/null || missing+=("SQLite with headers")
    command -v fusermount3 >/dev/null || missing+=(fusermount3)
    [ ${#missing[@]} -eq 0 ] && return
    local list
    list=$(printf '%s, ' "${missing[@]}")
    fail "this is not Debian; install what Debian calls \"$*\" first (not found: ${list%, })"
}

# A port of the loopback interface on which nobody listens.
free_port() {
    python3 -c 'import socket as s; x = s.create_server(("127.0.0.1", 0)); print(x.getsockname()[1])'
}

# Finds a Swift toolchain that is new enough, also where swiftly and the archives put it.
need_swift() {
    local folder version
    if ! command -v swift >/dev/null; then
        for folder in "$HOME/.local/share/swiftly/bin" /opt/swift/usr/bin /usr/libexec/swift/bin; do
            [ -x "$folder/swift" ] && PATH="$folder:$PATH" && break
        done
    fi
    command -v swift >/dev/null \
        || fail "no Swift found; install Swift $oldest_swift or later from https://swift.org/install"
    if ! swift build --version >/dev/null 2>&1 && command -v dpkg-query >/dev/null; then
        need_packages "${toolchain_packages[@]}"
    fi
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9.]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] || fail "\"swift --version\" does not work; reinstall the Swift toolchain"
    [ "$(printf '%s\n' "$oldest_swift" "$version" | sort -V | head -n 1)" = "$oldest_swift" ] \
        || fail "Swift $version is too old; install $oldest_swift or later from https://swift.org/install"
}

# Whether anything that goes into a build is newer than the stamp left by the last one.
# Folders count too, so that a removed file is noticed.
build_is_current() {
    local stamp=$1 newer
    shift
    [ -e "$stamp" ] || return 1
    newer=$(find "$root/Package.swift" "$@" -newer "$stamp" -print -quit 2>/dev/null)
    [ -z "$newer" ]
}

# Builds the programs for use. Swift's runtime is linked in: they run without a toolchain.
build_release() {
    local stamp="$root/.build/release/.cloudfs-built" started
    if [ -x "$root/.build/release/cloudfs" ] && [ -x "$root/.build/release/cloudfs-mount" ] \
        && build_is_current "$stamp" "$root/Sources"; then
        return
    fi
    say "Building (release); the first build takes some minutes."
    started=$(mktemp)
    for product in cloudfs cloudfs-mount; do
        swift build --package-path "$root" -c release --static-swift-stdlib \
            --product "$product" "${compiler_flags[@]}" \
            || { rm -f "$started"; fail "the build failed; its messages are above"; }
    done
    # The time at which the build began: a file edited meanwhile still counts as newer.
    touch -r "$started" "$stamp"
    rm -f "$started"
}

# The kernel's side of every mount, in one sentence if it is absent.
need_fuse() {
    [ -e /dev/fuse ] || fail "there is no /dev/fuse; load it with \"modprobe fuse\" (in a container: pass the device in)"
    { [ -r /dev/fuse ] && [ -w /dev/fuse ]; } \
        || fail "/dev/fuse is not open to $(id -un); as root: chmod 666 /dev/fuse"
}

# Every mount of ours at or below a folder, deepest first, names unescaped. The mount table is
# read instead of asking each folder: a dead mount answers nobody.
mounts_below() {
    local folder target type
    folder=$(realpath -m -s "$1")
    folder=${folder%/}
    while read -r _ target type _; do
        [[ $type == fuse.cloudfs || $type == fuse.cloudfs-mount ]] || continue
        target=$(printf '%b' "${target//\\0/\\00}")
        if [[ $target == "$folder" || $target == "$folder"/* ]]; then
            printf '%s\n' "$target"
        fi
    done </proc/self/mounts | sort -r
}

# Detaches whatever is still mounted there, also when its daemon is gone.
detach_mounts_below() {
    local target
    mounts_below "$1" | while IFS= read -r target; do
        say "Detaching $target"
        if [ "$(id -u)" -eq 0 ]; then
            umount -l -- "$target" || true
        else
            fusermount3 -u -z -- "$target" || true
        fi
    done
}
