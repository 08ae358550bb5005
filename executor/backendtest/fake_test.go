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
