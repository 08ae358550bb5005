package isolated

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestHelperOwner owns a directory until it is killed.
func TestHelperOwner(t *testing.T) {
	base := os.Getenv("HOLDFAST_TEST_OWN")
	if base == "" {
		t.Skip("it is a part of TestSweepRemovesWhatDeadOwnersLeft")
	}
	require.NoError(t, own(base))
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// TestSweepRemovesWhatDeadOwnersLeft: a directory with a mounted filesystem goes once its owner is dead, and not before; one that
// nobody owns stays.
func TestSweepRemovesWhatDeadOwnersLeft(t *testing.T) {
	if why := WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	t.Setenv("TMPDIR", t.TempDir())
	nobodys, owned := filepath.Join(os.TempDir(), "holdfast-1"), filepath.Join(os.TempDir(), "holdfast-2")
	require.NoError(t, os.Mkdir(nobodys, 0o700))
	require.NoError(t, os.Mkdir(owned, 0o700))
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHelperOwner$")
	cmd.Env = append(os.Environ(), "HOLDFAST_TEST_OWN="+owned)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	require.NoError(t, cmd.Start())
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the owner's file", func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(owned, ownerFile))
		return len(text) > 40, err
	}))
	_, err = harness.MakeDisk(t.Context(), filepath.Join(owned, "disk"), filepath.Join(owned, "below"), 4<<20)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unmountAll(context.Background(), owned) }) // done below when all goes well

	require.NoError(t, Sweep(t.Context()))
	require.DirExists(t, owned)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	require.NoError(t, Sweep(t.Context()))
	require.NoDirExists(t, owned)
	require.DirExists(t, nobodys)
	loops, err := harness.Loops(owned)
	require.NoError(t, err)
	require.Empty(t, loops)
}
