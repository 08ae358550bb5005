package backendtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

const worldPool = fsm.PoolID("hp-world")

// oneHost is a world of one host with one pool, and a process on it.
func oneHost(gate backendtest.Gate, copies bool) (*backendtest.Host, *backendtest.Process) {
	h := backendtest.NewWorld(gate).AddHost("n1", backendtest.PoolConfig{ID: worldPool, FullCopies: copies})
	return h, h.StartProcess()
}

func TestTheWorldsPoolPassesTheSuite(t *testing.T) {
	backendtest.RunBackendSuite(t, func(*testing.T) backendtest.Harness {
		return worldHarness(oneHost(nil, false)).Harness
	})
}

func TestTheWorldsPoolPassesTheSnapshotSuite(t *testing.T) {
	for name, copies := range map[string]bool{"sharing": false, "copying": true} {
		t.Run(name, func(t *testing.T) {
			backendtest.RunSnapshotSuite(t, func(*testing.T) backendtest.SnapshotHarness {
				return worldHarness(oneHost(nil, copies))
			})
		})
	}
}

func worldHarness(h *backendtest.Host, p *backendtest.Process) backendtest.SnapshotHarness {
	pool, snapshots := h.Pool(worldPool), func() executor.SnapshotBackend { return p.Pools()[0].(executor.SnapshotBackend) }
	return backendtest.SnapshotHarness{
		Harness: backendtest.Harness{
			Backend:          p.Pools()[0],
			Reopen:           func() executor.Backend { return p.Pools()[0] },
			InterruptCreate:  func(_ *testing.T, id fsm.VolumeID) { pool.InterruptCreate(id) },
			SetAbsent:        func(_ *testing.T, absent bool) { pool.SetAbsent(absent) },
			RequireUntouched: func(*testing.T) {},
		},
		Snapshots:       snapshots(),
		ReopenSnapshots: snapshots,
		Write:           func(_ *testing.T, id fsm.VolumeID, at int64, data []byte) { pool.Write(id, at, data) },
		Discard: func(_ *testing.T, id fsm.VolumeID, at, length int64) {
			pool.Write(id, at, make([]byte, length))
			pool.DiscardZeros(id)
		},
		Read: func(_ *testing.T, id fsm.VolumeID) []byte { return pool.Content(id).Bytes() },
		ReadSnapshot: func(t *testing.T, id fsm.SnapshotID) []byte {
			content, exists := pool.SnapshotContent(id)
			require.True(t, exists)
			return content.Bytes()
		},
		InterruptSnapshot: func(_ *testing.T, id fsm.SnapshotID) { pool.InterruptSnapshot(id) },
		InterruptRevert:   func(_ *testing.T, id fsm.VolumeID) { pool.InterruptRevert(id) },
	}
}
