package raftsim

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// history is what clients were told, and what the members' logs say.
type history struct {
	clock atomic.Uint64 // counts the begins and ends of operations

	mu         sync.Mutex
	operations []operation
	entries    map[uint64]raftnode.Entry
	terms      map[string]uint64 // the highest that a member was seen in
	leaders    map[uint64]string // who led in a term
	changed    map[uint64]bool   // the command changed its host's record
	installs   int
	elections  int
	damages    int // Raft snapshots that were damaged
	compared   int // entries of members
}

// operation is a call that was answered.
type operation struct {
	write      bool
	begun, end uint64 // on the history's clock
	index      uint64 // of the command, or of the state that was read
	request    []byte // of a command
	hash       [32]byte
	at         string // which member answered
	outcome    outcome
	watched    bool // a watch for its effect began before it at the member that answered, and
	woken      bool
}

type outcome int

const (
	done outcome = iota
	refused
	unknown
)

func (h *history) add(op operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, op)
}

// collect takes the entries that a member has journalled; they must be those of all others.
func (h *history) collect(p *process) error {
	var found []raftnode.Entry
	if _, err := p.History(0, 0, func(e raftnode.Entry) bool {
		if e.Command != nil {
			found = append(found, e)
		}
		return true
	}); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.compared += len(found)
	for _, e := range found {
		known, seen := h.entries[e.Index]
		if seen && (known.Term != e.Term || !proto.Equal(known.Command, e.Command) || !proto.Equal(known.Outcome, e.Outcome)) {
			return fmt.Errorf("%s has another entry at index %d, of term %d, than one of term %d elsewhere", p.member.name, e.Index, e.Term, known.Term)
		}
		h.entries[e.Index] = e
	}
	return nil
}

// sawTerm records that a member is in a term, and whether it leads.
func (h *history) sawTerm(id string, term uint64, leads bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.terms[id]; term < before {
		return fmt.Errorf("member %s went back from term %d to term %d", id, before, term)
	}
	h.terms[id] = term
	if !leads {
		return nil
	}
	other, known := h.leaders[term]
	if known && other != id {
		return fmt.Errorf("term %d has two leaders, %s and %s", term, other, id)
	}
	if !known {
		h.elections++
	}
	h.leaders[term] = id
	return nil
}

// replay decides all commands again, and returns the hash after each.
func (h *history) replay() (hashes map[uint64][32]byte, err error) {
	indexes := make([]uint64, 0, len(h.entries))
	for index := range h.entries {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	state := fsm.New()
	hashes, h.changed = map[uint64][32]byte{0: state.Hash()}, map[uint64]bool{}
	for _, index := range indexes {
		e := h.entries[index]
		result := state.Apply(index, proto.CloneOf(e.Command))
		if !proto.Equal(result.Outcome, e.Outcome) {
			return nil, fmt.Errorf("entry %d decided again gives %v, the members had %v", index, result.Outcome, e.Outcome)
		}
		hashes[index] = state.Hash()
		h.changed[index] = slices.ContainsFunc(result.Changes, func(c fsm.Change) bool {
			return string(c.Node) == e.Command.GetRegisterNode().GetNodeId()
		})
	}
	return hashes, nil
}

// checkAcknowledged compares what clients were told with the log.
func (h *history) checkAcknowledged() error {
	for _, op := range h.operations {
		if !op.write || op.outcome == unknown {
			continue
		}
		if e := h.entries[op.index]; e.Command == nil || !bytes.Equal(e.Command.GetRequestId(), op.request) {
			return fmt.Errorf("request %x was acknowledged at index %d, where the log has another command or none", op.request, op.index)
		}
	}
	return nil
}

// checkOnce fails when a request had two effects.
func (h *history) checkOnce() error {
	effects := map[string]uint64{}
	for _, e := range h.entries {
		id := string(e.Command.GetRequestId())
		if id == "" {
			continue
		}
		if first, seen := effects[id]; seen && first != e.Outcome.GetIndex() {
			return fmt.Errorf("request %x had effects at %d and at %d", id, first, e.Outcome.GetIndex())
		}
		effects[id] = e.Outcome.GetIndex()
	}
	return nil
}

// checkWakes fails when a watch missed a change.
func (h *history) checkWakes() error {
	for _, op := range h.operations {
		if op.write && op.outcome == done && op.watched && h.changed[op.index] && !op.woken {
			return fmt.Errorf("a watch at %s missed the change at index %d", op.at, op.index)
		}
	}
	return nil
}

// checkReads compares each state that was read with the replayed one of its index.
func (h *history) checkReads(hashes map[uint64][32]byte) error {
	for _, op := range h.operations {
		if op.write || op.outcome != done {
			continue
		}
		if want, known := hashes[op.index]; !known || want != op.hash {
			return fmt.Errorf("%s was read at index %d with another state than the log gives", op.at, op.index)
		}
	}
	return nil
}

// checkOrder fails unless the order of the log is one in which the calls can have happened: what began after
// another call ended comes behind it. Reads share an index, commands do not. With checkReads and
// checkAcknowledged this is linearizability.
func (h *history) checkOrder() error {
	var events []operation
	for _, op := range h.operations {
		if op.outcome == done {
			events = append(events, op)
		}
	}
	byEnd := slices.Clone(events)
	slices.SortFunc(events, func(a, b operation) int { return int(a.begun) - int(b.begun) })
	slices.SortFunc(byEnd, func(a, b operation) int { return int(a.end) - int(b.end) })
	var ended operation // with the highest index of those that ended
	for next, op := 0, 0; op < len(events); op++ {
		for ; next < len(byEnd) && byEnd[next].end < events[op].begun; next++ {
			if byEnd[next].index > ended.index {
				ended = byEnd[next]
			}
		}
		if o := events[op]; o.index < ended.index || o.write && o.index == ended.index {
			return fmt.Errorf("at %s a call that began after one at index %d ended was answered from index %d", o.at, ended.index, o.index)
		}
	}
	return nil
}
