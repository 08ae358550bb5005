package backendtest_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestFakeBackendPassesTheSuite(t *testing.T) {
	backendtest.RunBackendSuite(t, func(*testing.T) backendtest.Harness {
		f := backendtest.NewFakeBackend()
		return backendtest.Harness{
			Backend:          f,
			Reopen:           func() executor.Backend { return f },
			InterruptCreate:  func(_ *testing.T, id fsm.VolumeID) { f.InterruptCreate(id) },
			SetAbsent:        func(_ *testing.T, absent bool) { f.SetAbsent(absent) },
			RequireUntouched: func(*testing.T) {},
		}
	})
}

func TestFakeBackendPassesTheSnapshotSuite(t *testing.T) {
	for name, copies := range map[string]bool{"sharing": false, "copying": true} {
		t.Run(name, func(t *testing.T) {
			backendtest.RunSnapshotSuite(t, func(*testing.T) backendtest.SnapshotHarness {
				f := backendtest.NewFakeBackend()
				f.SetFullCopies(copies)
				return harness(f)
			})
		})
	}
}

func harness(f *backendtest.FakeBackend) backendtest.SnapshotHarness {
	return backendtest.SnapshotHarness{
		Harness: backendtest.Harness{
			Backend:          f,
			Reopen:           func() executor.Backend { return f },
			InterruptCreate:  func(_ *testing.T, id fsm.VolumeID) { f.InterruptCreate(id) },
			SetAbsent:        func(_ *testing.T, absent bool) { f.SetAbsent(absent) },
			RequireUntouched: func(*testing.T) {},
		},
		Snapshots:       f,
		ReopenSnapshots: func() executor.SnapshotBackend { return f },
		Write:           func(_ *testing.T, id fsm.VolumeID, at int64, data []byte) { f.Write(id, at, data) },
		Discard: func(_ *testing.T, id fsm.VolumeID, at, length int64) {
			f.Write(id, at, make([]byte, length))
			f.DiscardZeros(id)
		},
		Read: func(_ *testing.T, id fsm.VolumeID) []byte { return f.Content(id).Bytes() },
		ReadSnapshot: func(_ *testing.T, id fsm.SnapshotID) []byte {
			content, _ := f.SnapshotContent(id)
			return content.Bytes()
		},
		InterruptSnapshot: func(_ *testing.T, id fsm.SnapshotID) { f.InterruptSnapshot(id) },
		InterruptRevert:   func(_ *testing.T, id fsm.VolumeID) { f.InterruptRevert(id) },
	}
}
