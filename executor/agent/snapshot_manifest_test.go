package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// heldSnapshotOf is what a host says that it has of a snapshot, nil where it says nothing.
func heldSnapshotOf(t testing.TB, e *agent.Agent, id fsm.SnapshotID) *fsmpb.HeldSnapshot {
	t.Helper()
	found, err := e.Held(t.Context())
	require.NoError(t, err)
	for _, item := range found.Items {
		if item.Kind == executor.KindHeldSnapshot && item.Snapshot == id {
			held := &fsmpb.HeldSnapshot{}
			require.NoError(t, pb.Unmarshal([]byte(item.Held), held))
			return held
		}
	}
	return nil
}

// S1: what a host keeps of a snapshot it says after the log was lost, also after a restart; that it removed one because the
// log said so, too. A manifest that is cut off or flipped says nothing, and hides none of the others.
func TestS1_AHostSaysWhatTheLostLogSaidOfSnapshots(t *testing.T) {
	w := newTestHost(t)
	id := backendtest.NewID()
	w.create(id, mountCap)
	kept, removed, damaged := w.takeSnapshot(id), w.takeSnapshot(id), w.takeSnapshot(id)
	all := []fsm.SnapshotID{kept, removed, damaged}
	for _, n := range all {
		w.eventually(func() bool { return heldSnapshotOf(t, w.e, n).GetManifest() != nil }, "it keeps what the log says")
	}
	require.NoError(t, w.deleteSnapshot(removed))
	w.eventually(func() bool { return heldSnapshotOf(t, w.e, removed).GetRemoved() }, "that one was deleted")
	files, err := filepath.Glob(filepath.Join(w.dir, "manifests", string(damaged)+"*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	w.replaceIncarnation() // in adoption mode it keeps that
	for name, damage := range map[string]func([]byte) []byte{
		"cut off": func(b []byte) []byte { return b[:40] },
		"flipped": func(b []byte) []byte { b[60] ^= 1; return b },
		"empty":   func([]byte) []byte { return nil },
	} {
		require.NoError(t, os.WriteFile(files[0], damage(append([]byte{}, content...)), 0o600))
		w.restart()
		require.Nil(t, heldSnapshotOf(t, w.e, damaged), name)
		require.True(t, heldSnapshotOf(t, w.e, removed).GetRemoved())
		require.Zero(t, heldSnapshotOf(t, w.e, removed).GetSizeBytes())
		held := heldSnapshotOf(t, w.e, kept)
		require.EqualValues(t, testSize, held.GetSizeBytes())
		require.Equal(t, string(kept), held.GetManifest().GetSnapshotId())
		require.EqualValues(t, 1, held.GetAt().GetIncarnation())
	}
}
