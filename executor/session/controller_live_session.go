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

// inventoryTimeout and candidatesTimeout bound an inventory query when the caller set no deadline. What could be imported
// takes longer: a host reads every device that is not ours, and some have hundreds. A host that is silent loses its session,
// which ends a query at once.
const (
	inventoryTimeout  = 10 * time.Second
	candidatesTimeout = time.Minute
)

// answerMargin is how much earlier than its controller a host gives up, so that its reason arrives.
const answerMargin = time.Second

func queryTimeout(candidates bool) time.Duration {
	if candidates {
		return candidatesTimeout
	}
	return inventoryTimeout
}

// maxInventoryItems bounds the memory of one answer.
const maxInventoryItems = 1 << 20

// liveSession is one host's session at this member.
type liveSession struct {
	node  fsm.NodeID
	host  fsm.HostID
	pools map[string]bool // that the host was registered with
	// arrival orders the sessions of this member by the arrival of their hellos. What follows, up
	// to the registration, may take longer for an earlier one.
	arrival uint64
	// answersHostFacts: the host's build answers what it shows of itself.
	answersHostFacts bool

	ctx      context.Context
	cancel   context.CancelCauseFunc
	outgoing chan *sessionpb.ToNode // queries, sent by the session's own goroutine

	mu             sync.Mutex
	lastHeard      time.Time
	telemetry      *sessionpb.Telemetry
	telemetryIndex uint64 // applied by this member when the telemetry was received
	lastQueryID    uint64
	queries        map[uint64]*pendingQuery
}

// pendingQuery is a query that the host has not completely answered.
type pendingQuery struct {
	items         []*sessionpb.InventoryItem
	encryption    bool
	candidates    bool
	mapAnswer     *sessionpb.MapAnswer
	volumeAnswer  *sessionpb.VolumeAnswer
	replicaAnswer *sessionpb.ReplicaAnswer

	hostFactsAnswer *sessionpb.HostFactsAnswer

	done chan error
}

func newLiveSession(ctx context.Context, register *fsmpb.RegisterNode, arrival uint64) *liveSession {
	ls := &liveSession{
		node:      fsm.NodeID(register.GetNodeId()),
		host:      fsm.HostID(register.GetHostId()),
		pools:     map[string]bool{},
		arrival:   arrival,
		outgoing:  make(chan *sessionpb.ToNode),
		lastHeard: time.Now(),
		queries:   map[uint64]*pendingQuery{},
	}
	ls.ctx, ls.cancel = context.WithCancelCause(ctx)
	for _, pool := range register.GetPools() {
		ls.pools[pool.GetPoolId()] = true
	}
	return ls
}

// setTelemetry stores telemetry. Pools of other hosts are left out: a host reports
// about its own only (S20).
func (ls *liveSession) setTelemetry(t *sessionpb.Telemetry, index uint64) {
	own := &sessionpb.Telemetry{}
	for _, pool := range t.GetPools() {
		if ls.pools[pool.GetId()] {
			own.Pools = append(own.Pools, pool)
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.telemetry, ls.telemetryIndex = own, index
}

// noteHeard notes that a message of the host was received.
func (ls *liveSession) noteHeard() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.lastHeard = time.Now()
}

func (ls *liveSession) facts() *sessionpb.SessionFacts {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return &sessionpb.SessionFacts{
		NodeId: string(ls.node), HostId: string(ls.host), Index: ls.telemetryIndex, Telemetry: ls.telemetry, QuietNanos: int64(time.Since(ls.lastHeard)),
	}
}

// askInventory queries the host for the objects of all its pools, for what it has of each volume, or for what could
// be imported.
func (ls *liveSession) askInventory(ctx context.Context, req *sessionpb.InventoryRequest) (inventoryReply, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout(req.GetCandidates()))
	defer cancel()
	q, err := ls.ask(ctx, "what it holds", func(id uint64) *sessionpb.ToNode {
		return &sessionpb.ToNode{Body: &sessionpb.ToNode_Inventory{Inventory: &sessionpb.InventoryQuestion{Question: id, Held: req.GetHeld(), Candidates: req.GetCandidates()}}}
	})
	if err != nil {
		return inventoryReply{}, err
	}
	return inventoryReply{items: q.items, encryption: q.encryption, candidates: q.candidates}, nil
}

// ask sends the host a query and waits for its complete answer.
func (ls *liveSession) ask(ctx context.Context, what string, message func(id uint64) *sessionpb.ToNode) (*pendingQuery, error) {
	id, q := ls.newQuery()
	defer ls.dropQuery(id)
	unanswered := status.Errorf(codes.Unavailable, "%s did not answer %s", ls.node, what)
	select {
	case ls.outgoing <- message(id):
	case <-ctx.Done():
		return nil, unanswered
	case <-ls.ctx.Done():
		return nil, unanswered
	}
	select {
	case err := <-q.done:
		return q, err
	case <-ctx.Done():
		return nil, unanswered
	case <-ls.ctx.Done():
		return nil, unanswered
	}
}

func (ls *liveSession) newQuery() (uint64, *pendingQuery) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.lastQueryID++
	q := &pendingQuery{done: make(chan error, 1)}
	ls.queries[ls.lastQueryID] = q
	return ls.lastQueryID, q
}

func (ls *liveSession) dropQuery(id uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.queries, id)
}

// addInventoryAnswer adds a part of an answer. One to a query that has ended is too late, and is dropped.
func (ls *liveSession) addInventoryAnswer(a *sessionpb.InventoryAnswer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q := ls.queries[a.GetQuestion()]
	if q == nil {
		return
	}
	q.items = append(q.items, a.GetItems()...)
	q.encryption, q.candidates = a.GetEncryption(), a.GetCandidates()
	tooMany := len(q.items) > maxInventoryItems
	if a.GetMore() && !tooMany && a.GetError() == "" {
		return
	}
	delete(ls.queries, a.GetQuestion())
	switch {
	case a.GetError() != "":
		q.done <- status.Errorf(codes.Unavailable, "%s could not say what it holds: %s", ls.node, a.GetError())
	case tooMany:
		q.done <- status.Errorf(codes.ResourceExhausted, "%s holds more than %d things", ls.node, maxInventoryItems)
	default:
		q.done <- nil
	}
}
