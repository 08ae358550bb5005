package backendtest_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func key(text string) executor.Passphrase { return executor.NewPassphrase(text) }

// encrypted is an active image with a header that "old" opens.
func encrypted(t *testing.T, gate backendtest.Gate) (*backendtest.Host, *backendtest.Process, fsm.VolumeID, executor.Device) {
	h, p := oneHost(gate, false)
	id := backendtest.NewID()
	require.NoError(t, p.Pools()[0].Create(t.Context(), id, 64*mib))
	d, err := p.Pools()[0].Activate(t.Context(), id, false)
	require.NoError(t, err)
	found, err := p.Encryptor().ProbeHeader(t.Context(), d.Path)
	require.NoError(t, err)
	require.Equal(t, executor.LUKSHeader{Read: true, Empty: true}, found)
	require.NoError(t, p.Encryptor().Format(t.Context(), d.Path, "first", key("old")))
	return h, p, id, d
}

// CryptBoundaries lists what the gate is asked of encrypted volumes, and nothing else.
func TestEveryEffectOfAnEncryptionHasItsTwoBoundaries(t *testing.T) {
	gate := &answers{}
	_, p, id, d := encrypted(t, gate)
	e, file := p.Encryptor(), filepath.Join(t.TempDir(), "copy.luks")
	require.NoError(t, e.ChangeUUID(t.Context(), d.Path, "second"))
	require.NoError(t, e.Open(t.Context(), id, d.Path, executor.OpenOptions{}, key("old")))
	require.NoError(t, e.Resize(t.Context(), id, key("old")))
	require.NoError(t, e.AddKey(t.Context(), d.Path, 1, key("old"), key("new")))
	require.NoError(t, e.KillSlot(t.Context(), d.Path, 0, key("new")))
	require.NoError(t, e.BackUpHeader(t.Context(), d.Path, file))
	require.NoError(t, e.Close(t.Context(), id))
	require.NoError(t, e.WipeHeader(t.Context(), d.Path))
	require.NoError(t, e.RestoreHeader(t.Context(), d.Path, file))
	found, err := e.ProbeHeader(t.Context(), d.Path)
	require.NoError(t, err)
	require.Equal(t, executor.LUKSHeader{Read: true, UUID: "second", Slots: []int{1}}, found)
	asked := slices.DeleteFunc(slices.Sorted(maps.Keys(gate.names)), func(name string) bool {
		return !strings.HasPrefix(name, "luks.") || !strings.HasSuffix(name, ".before") && !strings.HasSuffix(name, ".after")
	})
	require.Equal(t, backendtest.CryptBoundaries(), asked)
}

func TestTheLastKeyOfAHeaderStays(t *testing.T) {
	_, p, _, d := encrypted(t, nil)
	e := p.Encryptor()
	for _, other := range []string{"old", "wrong"} { // neither opens another slot
		var rejection *fsm.Rejection
		require.ErrorAs(t, e.KillSlot(t.Context(), d.Path, 0, key(other)), &rejection)
		require.Equal(t, fsm.Unauthenticated, rejection.Reason)
	}
	opens, err := e.OpensSlot(t.Context(), d.Path, 0, key("old"))
	require.NoError(t, err)
	require.True(t, opens)
}

// What is behind the header is the volume's; the device below is in use as long as it is open; a reboot ends that.
func TestAMappingIsBehindTheHeader(t *testing.T) {
	h, p, id, d := encrypted(t, nil)
	e, pool := p.Encryptor(), p.Pools()[0]
	require.Error(t, e.Open(t.Context(), id, d.Path, executor.OpenOptions{}, key("wrong")))
	require.NoError(t, e.Open(t.Context(), id, d.Path, executor.OpenOptions{}, key("wrong"), key("old")))
	open, err := e.Mapping(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 48*mib, open.Size)
	require.NoError(t, p.Mounter().Format(t.Context(), open.Path, executor.Filesystem{Type: "ext4", UUID: "f"}, false))
	require.NoError(t, p.Mounter().Mount(t.Context(), open, executor.MountOptions{Path: stagedAt, FSType: "ext4"}))
	w, err := h.OpenWriter(stagedAt, fsm.Epoch{})
	require.NoError(t, err)
	_, err = w.Write()
	require.NoError(t, err)
	require.NoError(t, w.Sync())
	require.Len(t, h.DiskStamps(id), 1)
	require.Error(t, pool.Deactivate(t.Context(), id))
	require.Error(t, e.Close(t.Context(), id))
	header, found := h.OpenHeader(id)
	require.True(t, found)
	require.True(t, header.Opens("old"))
	require.Empty(t, h.World().Violations())

	h.PowerLoss(nil)
	h.Boot()
	p = h.StartProcess()
	require.Empty(t, h.Audit().Mappings)
	d, err = p.Pools()[0].Activate(t.Context(), id, false)
	require.NoError(t, err)
	require.NoError(t, p.Encryptor().Format(t.Context(), d.Path, "another", key("old")))
	require.Len(t, h.World().Violations(), 1)
}

func TestAVolumeIsRemovedWithoutItsHeader(t *testing.T) {
	h, p, id, d := encrypted(t, nil)
	e, pool := p.Encryptor(), p.Pools()[0]
	require.NoError(t, e.Open(t.Context(), id, d.Path, executor.OpenOptions{}, key("old")))
	require.NoError(t, e.Close(t.Context(), id))
	require.NoError(t, pool.Deactivate(t.Context(), id))
	require.NoError(t, pool.Remove(t.Context(), id))
	require.Len(t, h.World().Violations(), 1)
}
