package raftnode

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
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
