package replay

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// At is a hash of the state that a member answered.
type At struct {
	Index uint64
	Hash  string // hexadecimal
}

// Check decides the log again up to the last of the indexes at which a hash is known, and answers how many commands it
// decided. Every outcome, every checkpoint's hash and those of the members must come out.
func (l *Log) Check(seen ...At) (decided int, err error) {
	want := map[uint64]string{}
	var last uint64
	for _, a := range seen {
		if before := want[a.Index]; before != "" && before != a.Hash {
			return 0, fmt.Errorf("members had the hashes %s and %s at index %d", before, a.Hash, a.Index)
		}
		want[a.Index], last = a.Hash, max(last, a.Index)
	}
	if complete := l.Complete(); complete < last {
		return 0, fmt.Errorf("no member has what follows index %d of the log, of %d", complete, last)
	}
	return l.decide(want, last)
}

// decide applies the log to an empty state.
func (l *Log) decide(want map[uint64]string, last uint64) (decided int, err error) {
	hashes := map[uint64]string{}
	state := fsm.New()
	var term uint64
	for _, e := range l.Entries() {
		if e.Index > last {
			break
		}
		if e.Term < term {
			return decided, fmt.Errorf("index %d is of term %d, an earlier one of term %d", e.Index, e.Term, term)
		}
		term = e.Term
		if err := decideOne(state, e); err != nil {
			return decided, err
		}
		decided++
		hash := state.Hash()
		hashes[e.Index] = hex.EncodeToString(hash[:])
		if w := want[e.Index]; w != "" && w != hashes[e.Index] {
			return decided, fmt.Errorf("index %d: the members' hash is %s, the log's %s", e.Index, w, hashes[e.Index])
		}
		if err := verifyCheckpoint(e, hashes); err != nil {
			return decided, err
		}
	}
	return decided, nil
}

// decideOne applies one entry and compares the outcome with the one that was journalled.
func decideOne(state *fsm.State, e Entry) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("index %d cannot be decided: %v", e.Index, cause)
		}
	}()
	got := state.Apply(e.Index, e.Command).Outcome
	if !proto.Equal(got, e.Outcome) {
		return fmt.Errorf("index %d was decided as %v, and now as %v", e.Index, e.Outcome, got)
	}
	return nil
}

// verifyCheckpoint compares the hash that a majority agreed on.
func verifyCheckpoint(e Entry, hashes map[uint64]string) error {
	c, is := e.Command.GetBody().(*fsmpb.Command_Checkpoint)
	if !is || e.Outcome.GetRejection() != nil {
		return nil
	}
	at := c.Checkpoint.GetIndex()
	if got, w := hashes[at], hex.EncodeToString(c.Checkpoint.GetHash()); got != "" && got != w {
		return fmt.Errorf("the checkpoint of index %d has the hash %s, the log gives %s", at, w, got)
	}
	return nil
}
