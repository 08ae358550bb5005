package raftnode

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

func TestAStoredDumpIsTheNewestAtOrBelowAnIndex(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	m := c.add("c1", nil)
	c.waitReady(1)
	dumpBelow := func(below uint64) (index uint64, state *fsm.State) {
		var out bytes.Buffer
		index, err := m.StoredDump(below, &out)
		require.NoError(t, err)
		if index == 0 {
			require.Zero(t, out.Len())
			return 0, nil
		}
		state, header, err := fsm.ReadDump(&out)
		require.NoError(t, err)
		require.LessOrEqual(t, header.Index, index)
		return index, state
	}
	for range 2 {
		index, _ := dumpBelow(1 << 40)
		require.Zero(t, index, "nothing is stored yet")
	}
	var stored []uint64
	for _, name := range []string{"a", "b"} {
		m.mustPropose(t, name)
		require.NoError(t, m.raft.Snapshot().Error())
		newest, err := m.storage.snapshots.List()
		require.NoError(t, err)
		stored = append(stored, newest[0].Index)
	}
	for range 2 {
		for below, second := range map[uint64]bool{1: false, stored[0]: false, stored[1] - 1: false, stored[1]: true, 1 << 40: true} {
			index, state := dumpBelow(below)
			_, hasFirst := state.Node("a")
			_, hasSecond := state.Node("b")
			require.True(t, hasFirst)
			require.Equal(t, second, hasSecond, "below %d", below)
			require.Contains(t, stored, index)
		}
	}
}
