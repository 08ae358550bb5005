package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S70: an entry that was passed over is in the state, its hash and its dump, and a retry
// of it is told so.
func TestASkippedEntryStaysInTheState(t *testing.T) {
	skipped, applied := newWorld(t), newWorld(t)
	require.Equal(t, skipped.s.Hash(), applied.s.Hash())
	cmd := envelope("controller/c1", "poison", skipped.index, create(1))
	hash := bytesOf("content", 32)
	skipped.index++
	out := skipped.s.Skip(skipped.index, hash, cmd).Outcome
	require.Equal(t, Unsupported, reasonOf(out))
	applied.applyEnvelope(cmd)
	require.NotEqual(t, skipped.s.Hash(), applied.s.Hash())
	require.Equal(t, []Skipped{{Index: skipped.index, Hash: hash}}, skipped.s.Cluster().Skipped)
	require.NoError(t, skipped.s.Check())
	retried := skipped.applyEnvelope(cmd)
	require.Equal(t, out, retried, "a retry is not applied")
	_, found := skipped.s.VolumeByName("", "pvc-1")
	require.False(t, found)

	again := restored(t, skipped.s)
	require.Equal(t, skipped.s.Hash(), again.Hash())
	require.Equal(t, skipped.s.Cluster(), again.Cluster())
	fork := skipped.s.Fork()
	before := fork.Hash()
	skipped.index++
	skipped.s.Skip(skipped.index, hash, nil)
	require.Equal(t, before, fork.Hash(), "a fork changed with its original")
	require.Len(t, skipped.s.Cluster().Skipped, 2)
}
