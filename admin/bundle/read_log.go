package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxEntry bounds one entry of the journal.
const maxEntry = 64 << 20

// state reads a dump of the bundle.
func (b *Bundle) state(name string) (*fsm.State, error) {
	file, err := b.open(name)
	if err != nil {
		return nil, err
	}
	state, _, err := fsm.ReadDump(file)
	if err != nil {
		return nil, fmt.Errorf("read %s of the bundle: %w", name, err)
	}
	return state, nil
}

// entries yields the journal's entries with an index in [from, to] (0: no bound), gaps included, until fn returns false.
func (b *Bundle) entries(from, to uint64, fn func(admin.Entry) bool) error {
	file, err := b.open(journalFile)
	if err != nil {
		return err
	}
	in := bufio.NewReader(file)
	for {
		e := &adminpb.HistoryEntry{}
		err := protodelim.UnmarshalOptions{MaxSize: maxEntry}.UnmarshalFrom(in, e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the journal of the bundle: %w", err)
		}
		entry, wanted := entryIn(e, from, to)
		if wanted && !fn(entry) {
			return nil
		}
	}
}

// entryIn is an entry within bounds; a gap is cut to them.
func entryIn(e *adminpb.HistoryEntry, from, to uint64) (admin.Entry, bool) {
	last := max(e.GetIndex(), e.GetGapTo())
	if last < from || to != 0 && e.GetIndex() > to {
		return admin.Entry{}, false
	}
	if !e.GetGap() {
		return admin.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Command: e.GetCommand(), Outcome: e.GetOutcome(), Chain: e.GetChain()}, true
	}
	if to != 0 {
		last = min(last, to)
	}
	return admin.Entry{Index: max(from, e.GetIndex()), Term: e.GetTerm(), GapTo: last, GapReason: e.GetWhy()}, true
}

// StateAt is the state at an index; 0 is the newest. An earlier one is decided again, from the dump of an earlier state, or
// from the beginning, by the entries up to it.
func (b *Bundle) StateAt(index uint64) (*fsm.State, error) {
	newest, err := b.state(stateFile)
	if err != nil || index == 0 || index == b.Manifest.Log.Index {
		return newest, err
	}
	if index > b.Manifest.Log.Index {
		return nil, fmt.Errorf("the bundle has the state up to index %d, and not at %d", b.Manifest.Log.Index, index)
	}
	r := &replay{skipped: map[uint64][]byte{}}
	for _, s := range newest.Cluster().Skipped {
		r.skipped[s.Index] = s.Hash
	}
	if r.state, err = b.base(index); err != nil {
		return nil, err
	}
	if err := b.entries(r.state.Cluster().Index+1, index, r.decide); err != nil {
		return nil, err
	}
	return r.state, r.err
}

// base is the state from which entries lead to the one at an index.
func (b *Bundle) base(index uint64) (*fsm.State, error) {
	log := b.Manifest.Log
	switch {
	case log.Base != 0 && index >= log.Base:
		return b.state(baseFile)
	case log.Base == 0 && log.From == 1 && log.KnownFrom <= 1:
		return fsm.New(), nil
	case log.Base != 0:
		return nil, fmt.Errorf("the bundle has the state from index %d to %d, and not at %d", log.Base, log.Index, index)
	}
	return nil, fmt.Errorf("the bundle has the state at index %d only: no earlier one was stored", log.Index)
}

// replay decides entries again.
type replay struct {
	state   *fsm.State
	skipped map[uint64][]byte // entries that were passed over, with their hashes
	err     error
}

// decide applies one entry, and tells whether to go on.
func (r *replay) decide(e admin.Entry) bool {
	if e.Command == nil {
		r.err = fmt.Errorf("the bundle's journal lacks the entries %d to %d, so no state behind them can be decided: %s", e.Index, e.GapTo, e.GapReason)
		return false
	}
	outcome, err := r.apply(e)
	switch {
	case err != nil:
		r.err = err
	case !proto.Equal(outcome, e.Outcome):
		r.err = fmt.Errorf("this build decides entry %d otherwise than the cluster did: use the build that wrote the bundle", e.Index)
	}
	return r.err == nil
}

func (r *replay) apply(e admin.Entry) (outcome *fsmpb.Outcome, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("this build cannot decide entry %d: %v; use the build that wrote the bundle", e.Index, fault)
		}
	}()
	if hash, passedOver := r.skipped[e.Index]; passedOver {
		return r.state.Skip(e.Index, hash, e.Command).Outcome, nil
	}
	return r.state.Apply(e.Index, e.Command).Outcome, nil
}
