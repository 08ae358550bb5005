package prometheus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyTheTimesAreShortened(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	const text = "groups:\n  - name: g\n    rules:\n      - alert: A\n        expr: increase(a[5m]) > 0\n        for: 1m\n      - alert: B\n        expr: b > 0\n        for: 1d\n      - alert: C\n        expr: c > 0\n        for: 0m\n"
	require.NoError(t, os.WriteFile(from, []byte(text), 0o600))
	rules, err := Shorten(from, to, 300)
	require.NoError(t, err)
	require.Equal(t, []Rule{{"A", time.Minute}, {"B", 24 * time.Hour}, {"C", 0}}, rules)
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, strings.NewReplacer("for: 1m", "for: 200ms", "for: 1d", "for: 12000ms", "for: 0m", "for: 0ms").Replace(text), string(got))
	require.NoError(t, os.WriteFile(from, []byte("groups: [{rules: [{alert: A, for: long}]}]"), 0o600))
	_, err = Shorten(from, to, 300)
	require.ErrorContains(t, err, "alert A")
}
