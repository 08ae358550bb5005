package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S61: an encryption that keeps discards back is not trimmed, and its pool has what it had; where they pass, it has
// back what was deleted.
func TestS61_AnEncryptedVolumeIsTrimmedOnlyWhereDiscardsPass(t *testing.T) {
	for name, pass := range map[string]bool{"kept back": false, "passed": true} {
		t.Run(name, func(t *testing.T) {
			w, f := newCryptHost(t)
			w.discards = pass
			w.start(nil)
			id, _ := w.stagedEncrypted(mountCap)
			require.Equal(t, pass, f.options[id].Discards)
			w.writeAndDelete(id)
			for range 2 {
				used, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
				if !pass {
					require.Equal(t, fsm.Unsupported, reasonOf(err))
					continue
				}
				require.NoError(t, err)
				require.EqualValues(t, backendtest.BlockBytes, used.After)
			}
			facts, err := w.e.VolumeFacts(t.Context(), id)
			require.NoError(t, err)
			require.True(t, facts.AllocatedKnown)
			require.EqualValues(t, map[bool]int64{false: 4, true: 1}[pass]*backendtest.BlockBytes, facts.Allocated)
			require.Equal(t, pass, len(w.mounter.trims()) > 0)
			require.True(t, w.pool.Content(id).Contains("beside it"))
		})
	}
}

// A raw one has nothing to discard, and is measured all the same.
func TestS61_ARawEncryptedVolumeIsMeasured(t *testing.T) {
	w, _ := startCryptHost(t)
	id, _ := w.stagedEncrypted(blockCap)
	w.writeAndDelete(id)
	used, err := w.e.ReclaimSpace(t.Context(), reclaimOf(id))
	require.NoError(t, err)
	require.EqualValues(t, 4*backendtest.BlockBytes, used.After)
	_, err = w.e.VolumeFacts(t.Context(), backendtest.NewID())
	require.Equal(t, fsm.NotFound, reasonOf(err))
}
