package session

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// inventoryWait bounds a question to a host when the asker set no deadline.
const inventoryWait = 10 * time.Second

// maxItems bounds what one answer may make this process hold.
const maxItems = 1 << 20

// held is one session that this member has.
type held struct {
	node  fsm.NodeID
	host  fsm.HostID
	pools map[string]bool // that the host was registered with

	ctx context.Context
	end context.CancelCauseFunc
	out chan *sessionpb.ToNode // questions, sent by the session's own goroutine

	mu        sync.Mutex
	heard     time.Time
	telemetry *sessionpb.Telemetry
	index     uint64 // that was applied when the telemetry came in
	asked     uint64
	questions map[uint64]*question
}

// question is one that the host has not wholly answered yet.
type question struct {
	items  []*sessionpb.InventoryItem
	mapped *sessionpb.MapAnswer
	done   chan error
}

func newHeld(ctx context.Context, register *fsmpb.RegisterNode) *held {
	h := &held{
		node:      fsm.NodeID(register.GetNodeId()),
		host:      fsm.HostID(register.GetHostId()),
		pools:     map[string]bool{},
		out:       make(chan *sessionpb.ToNode),
		heard:     time.Now(),
		questions: map[uint64]*question{},
	}
	h.ctx, h.end = context.WithCancelCause(ctx)
	for _, pool := range register.GetPools() {
		h.pools[pool.GetPoolId()] = true
	}
	return h
}

// measure takes in telemetry. Pools of other hosts are left out: a host speaks
// for its own only (S20).
func (h *held) measure(t *sessionpb.Telemetry, applied uint64) {
	own := &sessionpb.Telemetry{}
	for _, pool := range t.GetPools() {
		if h.pools[pool.GetPoolId()] {
			own.Pools = append(own.Pools, pool)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.telemetry, h.index = own, applied
}

// spoke notes that the host was heard.
func (h *held) spoke() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = time.Now()
}

func (h *held) facts() *sessionpb.SessionFacts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &sessionpb.SessionFacts{
		NodeId: string(h.node), HostId: string(h.host), Index: h.index, Telemetry: h.telemetry, QuietNanos: int64(time.Since(h.heard)),
	}
}

// inventory asks the host what it holds.
func (h *held) inventory(ctx context.Context) ([]*sessionpb.InventoryItem, error) {
	ctx, cancel := context.WithTimeout(ctx, inventoryWait)
	defer cancel()
	q, err := h.put(ctx, "what it holds", func(id uint64) *sessionpb.ToNode {
		return &sessionpb.ToNode{Body: &sessionpb.ToNode_Inventory{Inventory: &sessionpb.InventoryQuestion{Question: id}}}
	})
	if err != nil {
		return nil, err
	}
	return q.items, nil
}

// put asks the host a question and waits for its whole answer.
func (h *held) put(ctx context.Context, what string, message func(id uint64) *sessionpb.ToNode) (*question, error) {
	id, q := h.ask()
	defer h.forget(id)
	unanswered := status.Errorf(codes.Unavailable, "%s did not answer %s", h.node, what)
	select {
	case h.out <- message(id):
	case <-ctx.Done():
		return nil, unanswered
	case <-h.ctx.Done():
		return nil, unanswered
	}
	select {
	case err := <-q.done:
		return q, err
	case <-ctx.Done():
		return nil, unanswered
	case <-h.ctx.Done():
		return nil, unanswered
	}
}

func (h *held) ask() (uint64, *question) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	q := &question{done: make(chan error, 1)}
	h.questions[h.asked] = q
	return h.asked, q
}

func (h *held) forget(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.questions, id)
}

// answered takes in a part of an answer. One to no open question came too late.
func (h *held) answered(a *sessionpb.InventoryAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.questions[a.GetQuestion()]
	if q == nil {
		return
	}
	q.items = append(q.items, a.GetItems()...)
	tooMany := len(q.items) > maxItems
	if a.GetMore() && !tooMany && a.GetError() == "" {
		return
	}
	delete(h.questions, a.GetQuestion())
	switch {
	case a.GetError() != "":
		q.done <- status.Errorf(codes.Unavailable, "%s could not say what it holds: %s", h.node, a.GetError())
	case tooMany:
		q.done <- status.Errorf(codes.ResourceExhausted, "%s holds more than %d things", h.node, maxItems)
	default:
		q.done <- nil
	}
}
