package stories

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// chart is its folder, seen from here.
const chart = "../../../deploy/chart"

func TestASectionIsRead(t *testing.T) {
	folder := t.TempDir()
	page := "# A\n\n    no\n\n## B\ntext\n\n    one\n      two\n\ntext\n\n    three\n\n## C\n    no\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "README.md"), []byte(page), 0o600))
	blocks, err := readSection(folder, "B")
	require.NoError(t, err)
	require.Equal(t, section{"one\n  two\n", "three\n"}, blocks)
	found, err := blocks.with("thr")
	require.NoError(t, err)
	require.Equal(t, "three\n", found)
	_, err = blocks.with("t")
	require.ErrorContains(t, err, "two blocks")
	_, err = blocks.with("four")
	require.ErrorContains(t, err, "no block")
	_, err = readSection(folder, "D")
	require.ErrorContains(t, err, "no section")
}

// TestTheChartsPageHasWhatIsRun: each block of the section is run by the story, by words that no other block has.
func TestTheChartsPageHasWhatIsRun(t *testing.T) {
	blocks, err := readSection(chart, certManagerSection)
	require.NoError(t, err)
	run := []string{"holdfast ca make", "--patch-file", "kind: Issuer", "wait issuer/", "mode: certManager", "get certificates", "delete secret holdfast-controller-tls-1\n", "delete issuer"}
	for _, words := range run {
		_, err := blocks.with(words)
		require.NoError(t, err)
	}
	require.Len(t, blocks, len(run))
}
