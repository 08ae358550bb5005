package raftnode

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// compareHash halts this member when its hash is not the majority's (S23).
func (m *machine) compareHash(c *fsmpb.Checkpoint) {
	own, known := m.hashes.at(c.GetIndex())
	if known && string(own[:]) != string(c.GetHash()) {
		m.halted.Store(true)
		m.events.diverged(c.GetIndex(), own[:], c.GetHash())
	}
}

// exitOnPanic turns a panic into an exit of the process. Where a test keeps the process
// alive, the raft goroutine ends and nothing is applied any more.
func (m *machine) exitOnPanic(activity string) {
	if p := recover(); p != nil {
		m.halted.Store(true)
		if m.applying != nil {
			m.events.entryFailed(m.applying, p)
		}
		m.events.failed(fmt.Sprintf("%s: %v\n%s", activity, p, debug.Stack()))
		runtime.Goexit()
	}
}

func (m *machine) exitIfHalted() {
	if m.halted.Load() {
		runtime.Goexit()
	}
}
