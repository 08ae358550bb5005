package backendtest_test

import (
	"testing"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestTheBackendInMemory(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backendtest.Harness {
		f := backendtest.NewFake()
		return backendtest.Harness{
			Backend:   f,
			Reopen:    func() executor.Backend { return f },
			Interrupt: func(_ *testing.T, id fsm.VolumeID) { f.Interrupt(id) },
			SetAbsent: func(_ *testing.T, absent bool) { f.SetAbsent(absent) },
			Untouched: func(*testing.T) {},
		}
	})
}

func TestTheSnapshotsInMemory(t *testing.T) {
	for name, copies := range map[string]bool{"sharing": false, "copying": true} {
		t.Run(name, func(t *testing.T) {
			backendtest.RunSnapshots(t, func(*testing.T) backendtest.SnapshotHarness {
				f := backendtest.NewFake()
				f.SetCopies(copies)
				return harness(f)
			})
		})
	}
}

func harness(f *backendtest.Fake) backendtest.SnapshotHarness {
	return backendtest.SnapshotHarness{
		Harness: backendtest.Harness{
			Backend:   f,
			Reopen:    func() executor.Backend { return f },
			Interrupt: func(_ *testing.T, id fsm.VolumeID) { f.Interrupt(id) },
			SetAbsent: func(_ *testing.T, absent bool) { f.SetAbsent(absent) },
			Untouched: func(*testing.T) {},
		},
		Snapshots:       f,
		ReopenSnapshots: func() executor.SnapshotBackend { return f },
		Write:           func(_ *testing.T, id fsm.VolumeID, at int64, data []byte) { f.Write(id, at, data) },
		Discard:         func(_ *testing.T, id fsm.VolumeID, at, length int64) { f.Write(id, at, make([]byte, length)) },
		Read:            func(_ *testing.T, id fsm.VolumeID) []byte { return f.Read(id) },
		ReadSnapshot:    func(_ *testing.T, id fsm.SnapshotID) []byte { return f.ReadSnapshot(id) },
		InterruptCut:    func(_ *testing.T, id fsm.SnapshotID) { f.InterruptCut(id) },
	}
}
