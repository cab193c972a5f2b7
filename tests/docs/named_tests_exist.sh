# Usage: named_tests_exist.sh SOURCE PAGE: every `Suite.Name` between backticks on the page is a test case.
set -euo pipefail
cd "$1"
tests=$(grep -rhoE 'TEST(_F|_P)?\([A-Za-z0-9_]+, *[A-Za-z0-9_]+' tests --include='*.cpp' | sed -E 's/TEST(_F|_P)?\(//; s/, */./')
names=$(grep -oE '`[A-Z][A-Za-z0-9]+\.[A-Z][A-Za-z0-9]+`' "$2" | tr -d '`' | sort -u)
(($(wc -l <<<"$names") > 30)) || { echo "$2 names next to no tests: the pattern of this check is wrong"; exit 1; }
missing=$(comm -23 <(printf '%s\n' "$names") <(sort -u <<<"$tests"))
[[ -z $missing ]] || { echo "$2 names tests that do not exist:"; echo "$missing"; exit 1; }
! grep -qx 'Refusal.OfNothing' <<<"$tests" # positive control: the list of tests is a list of names, not everything
