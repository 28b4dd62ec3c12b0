#!/bin/sh
# Installs Parley for you alone, without root: sh install.sh. Run it again to upgrade.
#   sh install.sh --uninstall     takes the program away; settings and conversations stay
#   PARLEY_URL=…                  the folder with the wheel and SHA256SUMS, another than below
#   PARLEY_WITH=uv|pipx|venv      what installs it; otherwise the first of them that is there
set -eu; : "${HOME:?names no folder; set it to yours}"

url=${PARLEY_URL:-"{{url}}"} url=${url%/}
venv=${XDG_DATA_HOME:-"$HOME/.local/share"}/parley-program
bin=$HOME/.local/bin
work=

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
clean() { [ -z "$work" ] || rm -rf "$work"; }
trap clean EXIT
trap 'exit 130' HUP INT TERM

fetch() { # ADDRESS FILE
    if has curl; then curl --fail --silent --show-error --location --output "$2" "$1"
    elif has wget; then wget --quiet --output-document="$2" "$1"
    else fail "Neither curl nor wget is here to download Parley; install one of them."
    fi || fail "$1 could not be downloaded. Check the network and the address, and run this again."
}

checksum() { # FILE
    if has sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

find_python() {
    for python in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if has "$python" && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then return 0; fi
    done 2>/dev/null
    fail "Parley needs Python 3.11 or newer; install it, or name one: PYTHON=/path/to/python3 sh install.sh"
}

is_ours() { # whether $bin/parley is none, or that of an installation like this one
    case $(readlink "$bin/parley") in */parley-program/* | */parley-bot/*) ;; *) [ ! -e "$bin/parley" ] ;; esac
}

by_venv() { # WHEEL
    mkdir -p "$bin" "$venv" 2>/dev/null && [ -w "$bin" ] && [ -w "$venv" ] ||
        fail "$bin or $venv can't be written; correct the permissions, and run this again."
    "$venv/bin/python" -c "" 2>/dev/null || rm -rf "$venv" # of a Python that is here no more
    "$python" -m venv "$venv" >"$work/log" 2>&1 || { cat "$work/log" >&2 &&
        fail "This Python can't make virtual environments; on Debian and Ubuntu: apt install python3-venv"; }
    # uv takes a fifth of pip's time. pip goes on where uv is not to be had, or fails.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv >"$work/log" 2>&1 || :
    if ! { [ -x "$venv/bin/uv" ] && "$venv/bin/uv" pip install --reinstall-package parley-bot --python "$venv/bin/python" "$1"; }; then
        "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$1" ||
            fail "The packages could not be installed, for the reason above."
    fi
    ln -sf "$venv/bin/parley" "$bin/parley"
}

uninstall() {
    gone=
    if has uv && uv tool uninstall parley-bot >/dev/null 2>&1; then gone=yes; fi
    if has pipx && pipx uninstall parley-bot >/dev/null 2>&1; then gone=yes; fi
    if [ -d "$venv" ]; then ! is_ours || rm -f "$bin/parley"; rm -rf "$venv"; gone=yes; fi
    [ -n "$gone" ] || fail "Parley was not installed by this script."
    say "Parley is uninstalled. Your settings and conversations are where they were."
}

install() {
    case $url in *://*) ;; *) fail "Name the folder that Parley is downloaded from: PARLEY_URL=https://… sh install.sh" ;; esac
    find_python
    work=$(mktemp -d) || fail "No temporary folder can be made; set TMPDIR to one that can be written."
    say "Downloading Parley from $url."
    fetch "$url/SHA256SUMS" "$work/SHA256SUMS"
    line=$(tr -d '\r' <"$work/SHA256SUMS" | grep '^[0-9a-f]\{64\}  parley_bot-[0-9A-Za-z.+_-]*\.whl$' | tail -n 1)
    wheel=${line#*  }
    [ -n "$wheel" ] || fail "$url/SHA256SUMS names no wheel of Parley; check the address."
    fetch "$url/$wheel" "$work/$wheel"
    [ "$(checksum "$work/$wheel")  $wheel" = "$line" ] ||
        fail "$wheel is not the file that was published, or only a part of it; nothing was installed. Run this again."
    with=${PARLEY_WITH:-$(if has uv; then echo uv; elif has pipx; then echo pipx; else echo venv; fi)}
    case $with in
        uv) bin=$(uv tool dir --bin) ;; pipx) bin=$(pipx environment --value PIPX_BIN_DIR) ;; venv) ;; *) false ;;
    esac || fail "PARLEY_WITH=$with can't be used here; it is uv, pipx or venv."
    is_ours || fail "$bin/parley is another program; move it away, and run this again."
    say "Installing $wheel by $with."
    case $with in
        uv) uv tool install --force --python "$(command -v "$python")" "$work/$wheel" ;;
        pipx) pipx install --force --python "$(command -v "$python")" "$work/$wheel" ;;
        venv) by_venv "$work/$wheel" ;;
    esac || fail "$with could not install it, for the reason above."
    version=$("$bin/parley" --version) || fail "$bin/parley does not start, for the reason above."
    say "$version is in $bin."
    if [ "$(command -v parley)" = "$bin/parley" ]; then say "Run: parley"
    else say "Run: $bin/parley (or put $bin first in your PATH)"; fi
}

case ${1:-} in
    --uninstall) uninstall ;;
    "") install ;;
    *) fail "$1 is unknown. It is: sh install.sh [--uninstall]" ;;
esac
