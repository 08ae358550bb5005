package raftnode

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// sink replaces the file into which Raft writes a Raft snapshot.
type sink struct{ bytes.Buffer }

func (*sink) ID() string    { return "sink" }
func (*sink) Close() error  { return nil }
func (*sink) Cancel() error { return nil }

var _ raft.SnapshotSink = (*sink)(nil)

// S137: entries that are applied while a Raft snapshot is written are not in it.
func TestS137_ARaftSnapshotIsOfTheIndexAtWhichItWasTaken(t *testing.T) {
	var fault atomic.Pointer[string]
	from, to := newTestMachine(t, &fault), newTestMachine(t, &fault)
	from.Apply(newLog(t, 3, registerNode("a")))
	want := from.fork().Hash()
	taken, err := from.Snapshot()
	require.NoError(t, err)
	from.Apply(newLog(t, 4, registerNode("b")))
	require.NotEqual(t, want, from.fork().Hash())
	var written sink
	require.NoError(t, taken.Persist(&written))
	to.markStarted()
	require.NoError(t, to.Restore(&dumpReader{ReadCloser: readerCloser{&written, io.NopCloser(nil)}, index: 3}))
	require.EqualValues(t, 3, to.index.Load())
	require.Equal(t, want, to.fork().Hash())
	require.Nil(t, fault.Load())
}

// failingSink fails where it has an error.
type failingSink struct {
	sink
	write, close error
}

func (s *failingSink) Write(p []byte) (int, error) { return len(p), s.write }
func (s *failingSink) Close() error                { return s.close }

// Each Raft snapshot is counted once, as one that was taken or one that failed.
func TestARaftSnapshotIsCounted(t *testing.T) {
	full := errors.New("no space left on device")
	for name, to := range map[string]*failingSink{"taken": {}, "failed to write": {write: full}, "failed to close": {close: full}} {
		var fault atomic.Pointer[string]
		m := newTestMachine(t, &fault)
		m.Apply(newLog(t, 3, registerNode("a")))
		var counted []string
		m.events.dumpDone = func(kind string) { counted = append(counted, kind) }
		taken, err := m.Snapshot()
		require.NoError(t, err)
		require.ErrorIs(t, taken.Persist(to), cmp.Or(to.write, to.close))
		want, _, _ := strings.Cut(name, " ")
		require.Equal(t, []string{want}, counted, name)
	}
}

// The data folder is bound to the cluster that a restored Raft snapshot names, before the state is replaced.
func TestARestoredRaftSnapshotNamesTheCluster(t *testing.T) {
	bootstrap := &fsmpb.Command{RequestId: make([]byte, fsm.RequestIDLen), Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster-1", IncarnationId: make([]byte, 16), FeatureLevel: fsm.MaxFeatureLevel,
	}}}
	bootstrap.SchemaVersion = fsm.LeastLevel(bootstrap)
	another := errors.New("the folder is of another cluster")
	for name, tc := range map[string]struct {
		first   *fsmpb.Command
		named   []string
		refused error
	}{
		"a cluster":            {first: bootstrap, named: []string{"cluster-1"}},
		"another cluster":      {first: bootstrap, named: []string{"cluster-1"}, refused: another},
		"no cluster to refuse": {first: registerNode("a"), refused: another},
	} {
		t.Run(name, func(t *testing.T) {
			var fault atomic.Pointer[string]
			from, to := newTestMachine(t, &fault), newTestMachine(t, &fault)
			from.Apply(newLog(t, 3, tc.first))
			var named []string
			to.events.clusterNamed = func(id string) error { named = append(named, id); return tc.refused }
			err := to.Restore(dumpAt(t, from, 3))
			require.Equal(t, tc.named, named)
			if tc.named != nil && tc.refused != nil {
				require.ErrorIs(t, err, tc.refused)
				require.Zero(t, to.index.Load())
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 3, to.index.Load())
		})
	}
}
