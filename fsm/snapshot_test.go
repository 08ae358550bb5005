package fsm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// restored is the state written and read again.
func restored(t testing.TB, s *State) *State {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteSnapshot(&b, 7))
	again, header, err := ReadSnapshot(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	require.Equal(t, SnapshotHeader{ClusterID: s.Cluster().ID, Index: s.Cluster().Index, Term: 7, FeatureLevel: s.Cluster().FeatureLevel}, header)
	require.Equal(t, s.Hash(), again.Hash())
	require.NoError(t, again.Check())
	return again
}

func TestASnapshotHoldsEverything(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	w.ok("controller/c1", create(2))
	again := restored(t, w.s)
	require.Equal(t, w.contents(), (&world{s: again}).contents())
}
