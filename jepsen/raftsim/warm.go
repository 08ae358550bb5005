package raftsim

import (
	"errors"

	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Warm makes what all members of this program share, outside of any bubble: a channel belongs to the bubble
// in which it is made, and no other may use it. The journal's compressor has some.
func Warm(dir string) error {
	j, err := journal.Open(journal.Options{Dir: dir})
	if err != nil {
		return err
	}
	err = errors.Join(j.Append(journal.Entry{Index: 1, Term: 1, Command: make([]byte, 1<<10), Outcome: make([]byte, 1<<10)}), j.Sync(1))
	err = errors.Join(err, j.Range(0, 0, func(journal.Entry) bool { return true }))
	return errors.Join(err, j.Close())
}
