package replay

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

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
	var hashes hashes
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
		hashes = append(hashes, At{e.Index, hex.EncodeToString(hash[:])})
		if err := verifyCheckpoint(e, hashes); err != nil {
			return decided, err
		}
	}
	for _, at := range slices.Sorted(maps.Keys(want)) {
		if got := hashes.at(at); got != want[at] {
			return decided, fmt.Errorf("index %d: the members' hash is %q, the log's %q", at, want[at], got)
		}
	}
	return decided, nil
}

// hashes are those of the state after each command, in their order.
type hashes []At

// at is the hash that the state had at an index: the one after the last command at or before it, as Raft's own entries change nothing. It is
// empty before the first.
func (h hashes) at(index uint64) string {
	i, found := slices.BinarySearchFunc(h, index, func(a At, index uint64) int { return compare(a.Index, index) })
	switch {
	case found:
		return h[i].Hash
	case i > 0:
		return h[i-1].Hash
	}
	return ""
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
func verifyCheckpoint(e Entry, hashes hashes) error {
	c, is := e.Command.GetBody().(*fsmpb.Command_Checkpoint)
	if !is || e.Outcome.GetRejection() != nil {
		return nil
	}
	at := c.Checkpoint.GetIndex()
	if got, w := hashes.at(at), hex.EncodeToString(c.Checkpoint.GetHash()); got != w {
		return fmt.Errorf("the checkpoint of index %d has the hash %q, the log gives %q", at, w, got)
	}
	return nil
}
