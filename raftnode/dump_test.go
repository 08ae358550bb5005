package raftnode

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// TestS22_AVerifiedDumpIsRestoredOnce checks that the state that was decoded to verify a Raft snapshot
// is used when that Raft snapshot is restored, and for no other.
func TestS22_AVerifiedDumpIsRestoredOnce(t *testing.T) {
	var fault atomic.Pointer[string]
	from := newTestMachine(t, &fault)
	from.Apply(newLog(t, 3, registerNode("a")))
	var snapshot bytes.Buffer
	require.NoError(t, from.fork().WriteDump(&snapshot, 1))
	meta := &raft.SnapshotMeta{ID: "1-9-5", Index: 9}
	unread := errors.New("the content was read")
	content := func(id string, index uint64, r io.Reader) io.ReadCloser {
		return &dumpReader{ReadCloser: io.NopCloser(r), id: id, index: index}
	}
	for name, tc := range map[string]struct {
		id      string
		index   uint64
		decodes bool
	}{
		"the same snapshot":   {id: "1-9-5", index: 9},
		"another id":          {id: "1-9-6", index: 9, decodes: true},
		"another index":       {id: "1-9-5", index: 8, decodes: true},
		"from somewhere else": {decodes: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTestMachine(t, &fault)
			require.NoError(t, m.verifiedDump.decode(meta, bytes.NewReader(snapshot.Bytes())))
			err := m.Restore(content(tc.id, tc.index, failingReader{unread}))
			if tc.decodes {
				require.ErrorIs(t, err, unread)
			} else {
				require.NoError(t, err)
				require.EqualValues(t, 3, m.index.Load())
				require.EqualValues(t, 9, m.applied.reached.Load())
				require.Equal(t, from.fork().Hash(), m.fork().Hash())
			}
			require.ErrorIs(t, m.Restore(content("1-9-5", 9, failingReader{unread})), unread, "it was handed out already")
		})
	}
	t.Run("a damaged snapshot leaves nothing to hand out", func(t *testing.T) {
		m := newTestMachine(t, &fault)
		require.NoError(t, m.verifiedDump.decode(meta, bytes.NewReader(snapshot.Bytes())))
		cut := bytes.NewReader(snapshot.Bytes()[:snapshot.Len()-1])
		require.Error(t, m.verifiedDump.decode(&raft.SnapshotMeta{ID: "1-9-5", Index: 9}, cut))
		require.ErrorIs(t, m.Restore(content("1-9-5", 9, failingReader{unread})), unread)
	})
	t.Run("nothing is kept once raft runs", func(t *testing.T) {
		m := newTestMachine(t, &fault)
		require.NoError(t, m.verifiedDump.decode(meta, bytes.NewReader(snapshot.Bytes())))
		m.markStarted()
		require.Nil(t, m.verifiedDump.state)
	})
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
