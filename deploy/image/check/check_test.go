package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

func TestProgramsAreThoseOfTheProduct(t *testing.T) {
	names, err := Programs("../../..")
	require.NoError(t, err)
	require.Subset(t, names, []string{"mkfs.xfs", "lvm", "drbdadm", "cryptsetup", "wipefs", "modprobe"})
	tree := rootfs.NewTree()
	for _, name := range names {
		require.ErrorContains(t, HasPrograms(tree, "../../.."), name)
		tree.Put("usr/sbin/"+name, 0o755, nil)
	}
	require.NoError(t, HasPrograms(tree, "../../.."))
	_, err = Programs("..")
	require.Error(t, err)
}

func TestReadmeGivesTheSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	for text, want := range map[string]string{
		"`make image` makes an image of 30 MB.": "", "`make image` makes 33 MB.": "", "`make image` makes 26 MB.": "has 30 MB", "30 MB": "does not say",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		if err := Readme(file, 30); want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}
