#!/bin/sh
# changed.sh [-importers]
#
# Prints the packages in which a file differs from the branch's merge base with main, in
# commits or in the working tree; on main itself, from the commit before the last. With
# -importers also those that import one of them directly. A file outside of a package
# (testdata, a script) counts for the nearest folder above that is one.
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
if ! git ls-files --error-unmatch go.mod >/dev/null 2>&1; then
  echo "what changed is known in a git clone only: run make check unit instead" >&2
  exit 1
fi

base() {
  for main in main origin/main; do
    if fork=$(git merge-base HEAD "$main" 2>/dev/null); then break; fi
  done
  if [ -z "${fork:-}" ] || [ "$fork" = "$(git rev-parse HEAD)" ]; then
    fork=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
  fi
  echo "$fork"
}

module=$($go list -m)
packages=$($go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./...)
files=$(git -c core.quotePath=off diff --name-only --no-renames "$(base)" -- && git -c core.quotePath=off ls-files --others --exclude-standard)
printf '%s\n\n%s\n' "$packages" "$files" | awk -v module="$module" -v importers="${1:-}" '
  !files && NF { row[++total] = $0; known[$1] }
  !files && !NF { files = 1; next }
  files { # up to the nearest folder that is a package
    path = module "/" $0
    do sub("/[^/]*$", "", path); while (!(path in known) && length(path) > length(module))
    changed[path]
  }
  END {
    for (i = 1; i <= total; i++) {
      count = split(row[i], field, " ")
      chosen = field[1] in changed
      for (j = 2; importers != "" && j <= count; j++) if (field[j] in changed) chosen = 1
      if (chosen) print field[1]
    }
  }'
