#!/bin/sh
# Installs Rowlock for the person who runs it: downloads the program for this machine, checks its SHA-256 and puts it into ~/.local/bin.
# usage: sh install.sh [--with-model]     --with-model takes the program that has the default model inside
#   ROWLOCK_VERSION     such as v0.1.0; the latest release when it is not set
#   ROWLOCK_BIN         folder to install into, instead of ~/.local/bin
#   ROWLOCK_DOWNLOADS   address of a folder with the files of a release, instead of the project's own
set -eu

# The release that this file is part of writes its repository here.
repository="${ROWLOCK_REPOSITORY:-@REPOSITORY@}"

fail() {
  echo "install: $*" >&2
  exit 1
}

fetch() { # URL FILE
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget --quiet --tries 3 --output-document "$2" "$1"
  else
    fail "neither curl nor wget is here"
  fi
}

sum_of() { # FILE
  if command -v sha256sum >/dev/null; then sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null; then shasum -a 256 "$1" | cut -d ' ' -f 1
  else fail "neither sha256sum nor shasum is here, so the download cannot be checked"
  fi
}

program_name() {
  case "$(uname -s)" in
    Linux) os=linux ;;
    Darwin) os=macos ;;
    *) fail "there is no download for $(uname -s); on Windows, use the Linux subsystem (WSL)" ;;
  esac
  case "$(uname -m)" in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "there is no download for the processor $(uname -m)" ;;
  esac
  [ "$os-$arch" != macos-x86_64 ] || fail "there is no download for Macs with an Intel processor"
  echo "rowlock-$os-$arch$1"
}

downloads() {
  if [ -n "${ROWLOCK_DOWNLOADS:-}" ]; then
    echo "$ROWLOCK_DOWNLOADS"
    return
  fi
  case "$repository" in @*) fail "this file is from a checkout; take it from a release, or set ROWLOCK_REPOSITORY to OWNER/NAME" ;; esac
  if [ -n "${ROWLOCK_VERSION:-}" ]; then echo "https://github.com/$repository/releases/download/$ROWLOCK_VERSION"
  else echo "https://github.com/$repository/releases/latest/download"
  fi
}

suffix=""
for argument in "$@"; do
  case "$argument" in
    --with-model) suffix="-with-model" ;;
    *) fail "unknown argument $argument, expected --with-model or nothing" ;;
  esac
done

name=$(program_name "$suffix")
from=$(downloads)
bin="${ROWLOCK_BIN:-${HOME:?HOME is not set}/.local/bin}"
mkdir -p "$bin"
work=$(mktemp -d "$bin/.rowlock-install.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

echo "Downloading $name"
fetch "$from/SHA256SUMS" "$work/SHA256SUMS"
fetch "$from/$name" "$work/rowlock"
expected=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
[ -n "$expected" ] || fail "the release has no SHA-256 for $name"
found=$(sum_of "$work/rowlock")
[ "$found" = "$expected" ] || fail "$name has SHA-256 $found, expected $expected; nothing was installed"

chmod 755 "$work/rowlock"
"$work/rowlock" --version >"$work/version" || fail "the program does not run on this machine; nothing was installed"
mv -f "$work/rowlock" "$bin/rowlock"
echo "Installed $(head -n 1 "$work/version") as $bin/rowlock"
case ":${PATH:-}:" in
  *":$bin:"*) echo "Start it with: rowlock" ;;
  *) echo "Start it with: $bin/rowlock   ($bin is not in PATH)" ;;
esac
