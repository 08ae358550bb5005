package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ErrNoSession: no member that answered has the host's session.
var ErrNoSession = errors.New("no controller has a session with the host")

// errNoSessionHere: the queried member has no session with the host.
var errNoSessionHere = errors.New("the member has no session with the host")

// Inventory queries a host for the objects of its pools, through whichever member has its session.
// It works on every member. The error says why the host could not be queried.
func (m *Members) Inventory(ctx context.Context, node fsm.NodeID) (executor.Inventory, error) {
	return m.inventory(ctx, &sessionpb.InventoryRequest{NodeId: string(node)})
}

// Held queries a host for what it has of each volume and snapshot, and for the revocations that it remembers, for an operator
// who adopts it after the log was lost: items of the kinds executor.KindHeld, executor.KindHeldSnapshot and
// executor.KindRevocation. A host of an older build answers nothing.
func (m *Members) Held(ctx context.Context, node fsm.NodeID) ([]executor.InventoryItem, error) {
	found, err := m.inventory(ctx, &sessionpb.InventoryRequest{NodeId: string(node), Held: true})
	return slices.DeleteFunc(found.Items, func(i executor.InventoryItem) bool {
		return i.Kind != executor.KindHeld && i.Kind != executor.KindHeldSnapshot && i.Kind != executor.KindRevocation
	}), err
}

// Candidates queries a host for what could be imported there. An older build is Unsupported.
func (m *Members) Candidates(ctx context.Context, node fsm.NodeID) ([]executor.InventoryItem, error) {
	found, err := m.inventory(ctx, &sessionpb.InventoryRequest{NodeId: string(node), Candidates: true})
	if err == nil && !found.Candidates {
		err = fsm.Reject(fsm.Unsupported, "node %s runs a build that does not say what could be imported: upgrade it", node)
	}
	return found.Items, err
}

func (m *Members) inventory(ctx context.Context, req *sessionpb.InventoryRequest) (executor.Inventory, error) {
	node := fsm.NodeID(req.GetNodeId())
	if ls := m.server.liveSession(node); ls != nil {
		r, err := ls.askInventory(ctx, req)
		return r.inventory(), err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	members, err := m.server.member.Peers(ctx)
	if err != nil {
		return executor.Inventory{}, fmt.Errorf("ask the members for the session of %s: %w", node, err)
	}
	answers := make(chan inventoryReply, len(members))
	for _, peer := range members {
		go func() { answers <- askPeerForInventory(ctx, peer, req) }()
	}
	failures := fmt.Errorf("ask %s what it holds: %w", node, ErrNoSession)
	for range members {
		r := <-answers
		if r.err == nil {
			return r.inventory(), nil
		}
		if !errors.Is(r.err, errNoSessionHere) {
			failures = errors.Join(failures, r.err)
		}
	}
	return executor.Inventory{}, failures
}

type inventoryReply struct {
	items      []*sessionpb.InventoryItem
	encryption bool
	candidates bool
	err        error
}

func (r inventoryReply) inventory() executor.Inventory {
	return executor.Inventory{Items: inventoryItemsFromProto(r.items), Encryption: r.encryption, Candidates: r.candidates}
}

func askPeerForInventory(ctx context.Context, peer Peer, req *sessionpb.InventoryRequest) (r inventoryReply) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout(req.GetCandidates()))
	defer cancel()
	if peer.Conn == nil {
		r.err = fmt.Errorf("member %s cannot be reached", peer.ID)
		return r
	}
	stream, err := sessionpb.NewPeersClient(peer.Conn).Inventory(ctx, req)
	found := false
	for err == nil {
		var part *sessionpb.InventoryResponse
		if part, err = stream.Recv(); err == nil {
			found, r.encryption = found || part.GetHeld(), r.encryption || part.GetEncryption()
			r.candidates = r.candidates || part.GetCandidates()
			r.items = append(r.items, part.GetItems()...)
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		r.err = fmt.Errorf("member %s: %w", peer.ID, err)
	case !found:
		r.err = errNoSessionHere
	}
	return r
}

func inventoryItemsFromProto(items []*sessionpb.InventoryItem) []executor.InventoryItem {
	all := make([]executor.InventoryItem, 0, len(items))
	for _, i := range items {
		all = append(all, inventoryItemFromProto(i))
	}
	return all
}
