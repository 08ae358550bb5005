package lvm

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// contentHash is of all that a device reads as.
func contentHash(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

func candidateNamed(t *testing.T, p *Pool, name string) executor.ImportCandidate {
	t.Helper()
	all, err := p.Candidates(t.Context())
	require.NoError(t, err)
	at := slices.IndexFunc(all, func(c executor.ImportCandidate) bool { return c.Name == name })
	require.GreaterOrEqual(t, at, 0, "%s is listed", name)
	return all[at]
}

// S15: what is on a logical volume is what is on the volume that it was imported as, and again when it was given back. A real
// LVM changes by UUID what is meant, and nothing by a UUID that is gone.
func TestS15_AnImportKeepsWhatIsOnTheDevice(t *testing.T) {
	p := newTestPool(t)
	const size, name = int64(32 << 20), "data_00000"
	command(t, "lvm", "lvcreate", "-qq", "-T", p.name(), "-n", name, "-V", "32M")
	device := "/dev/mapper/" + dmName(testVG, name)
	command(t, "dmsetup", "mknodes")
	command(t, "mkfs.ext4", "-q", device)
	before := contentHash(t, device)
	c := candidateNamed(t, p, name)
	require.Equal(t, []string{"ext4"}, c.Signatures)
	require.Empty(t, c.Refusal)
	require.Zero(t, c.OpenCount)

	held, err := os.Open(device)
	require.NoError(t, err)
	require.Positive(t, candidateNamed(t, p, name).OpenCount)
	id := backendtest.NewID()
	require.Equal(t, fsm.InUse, reason(p.Import(t.Context(), id, size, c.Device)))
	require.NoError(t, held.Close())
	require.Equal(t, fsm.Precondition, reason(p.Import(t.Context(), id, size, strings.ToUpper(c.Device))))

	for range 2 {
		require.NoError(t, p.Import(t.Context(), id, size, c.Device))
	}
	p = reopen(t, p)
	d, err := p.Activate(t.Context(), id, true)
	require.NoError(t, err)
	require.Equal(t, size, d.Size)
	require.Equal(t, before, contentHash(t, d.Path))
	require.Equal(t, fsm.InUse, reason(p.GiveBack(t.Context(), id, c.Device)))
	require.NoError(t, p.Deactivate(t.Context(), id))
	for range 2 {
		require.NoError(t, p.GiveBack(t.Context(), id, c.Device))
	}
	command(t, "lvm", "lvchange", "-ay", "-K", testVG+"/"+name)
	command(t, "dmsetup", "mknodes")
	require.Equal(t, before, contentHash(t, device))
	require.Equal(t, c.Device, candidateNamed(t, p, name).Device)
	require.Empty(t, strings.TrimSpace(command(t, "lvm", "lvs", "--noheadings", "-o", "lv_tags", testVG+"/"+name)))

	command(t, "mkswap", device)
	require.Equal(t, []string{"swap"}, candidateNamed(t, p, name).Signatures)
}
