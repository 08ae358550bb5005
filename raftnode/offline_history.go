package raftnode

import (
	"path/filepath"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// State is a copy of the state in the newest Raft snapshot, the one before the first entry where there is none.
func (o *Offline) State() *fsm.State {
	if o.dump.state == nil {
		return fsm.New()
	}
	return o.dump.state.Fork()
}

// History yields all that the journal has, as Member.History does. Nothing in it is changed.
func (o *Offline) History(fn func(Entry) bool) (first uint64, err error) {
	j, err := journal.OpenToRead(filepath.Join(o.dir, "journal"))
	if err != nil {
		return 0, err
	}
	return historyOf(j, 0, 0, fn)
}
