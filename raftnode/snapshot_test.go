package raftnode

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// sink is where Raft would keep a snapshot.
type sink struct{ bytes.Buffer }

func (*sink) ID() string    { return "sink" }
func (*sink) Close() error  { return nil }
func (*sink) Cancel() error { return nil }

var _ raft.SnapshotSink = (*sink)(nil)

// S137: what is applied while a Raft snapshot is written is not in it.
func TestS137_ARaftSnapshotIsOfTheIndexAtWhichItWasTaken(t *testing.T) {
	var fault atomic.Pointer[string]
	from, to := machineFor(t, &fault), machineFor(t, &fault)
	from.Apply(logOf(t, 3, register("a")))
	want := from.fork().Hash()
	taken, err := from.Snapshot()
	require.NoError(t, err)
	from.Apply(logOf(t, 4, register("b")))
	require.NotEqual(t, want, from.fork().Hash())
	var written sink
	require.NoError(t, taken.Persist(&written))
	to.start()
	require.NoError(t, to.Restore(&snapshotContent{ReadCloser: content{&written, io.NopCloser(nil)}, index: 3}))
	require.EqualValues(t, 3, to.index.Load())
	require.Equal(t, want, to.fork().Hash())
	require.Nil(t, fault.Load())
}
