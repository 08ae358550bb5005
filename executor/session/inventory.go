package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ErrNoSession: no member that could be asked has the host's session.
var ErrNoSession = errors.New("no controller has a session with the host")

// errNotHeld: the member that was asked has no session with the host.
var errNotHeld = errors.New("the member has no session with the host")

// Inventory asks a host what it holds, through whichever member has its session.
// It works on every member. The error says why the host could not be asked.
func (m *Monitor) Inventory(ctx context.Context, node fsm.NodeID) ([]executor.InventoryItem, error) {
	if h := m.Server.of(node); h != nil {
		items, err := h.inventory(ctx)
		return itemsOf(items), err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	members, err := m.member.Peers(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the members for the session of %s: %w", node, err)
	}
	answers := make(chan inventoryReply, len(members))
	for _, peer := range members {
		go func() { answers <- askForInventory(ctx, peer, node) }()
	}
	failures := fmt.Errorf("ask %s what it holds: %w", node, ErrNoSession)
	for range members {
		a := <-answers
		if a.err == nil {
			return itemsOf(a.items), nil
		}
		if !errors.Is(a.err, errNotHeld) {
			failures = errors.Join(failures, a.err)
		}
	}
	return nil, failures
}

type inventoryReply struct {
	items []*sessionpb.InventoryItem
	err   error
}

func askForInventory(ctx context.Context, peer Peer, node fsm.NodeID) (r inventoryReply) {
	ctx, cancel := context.WithTimeout(ctx, inventoryWait)
	defer cancel()
	if peer.Conn == nil {
		r.err = fmt.Errorf("member %s cannot be reached", peer.ID)
		return r
	}
	stream, err := sessionpb.NewPeersClient(peer.Conn).Inventory(ctx, &sessionpb.InventoryRequest{NodeId: string(node)})
	held := false
	for err == nil {
		var part *sessionpb.InventoryResponse
		if part, err = stream.Recv(); err == nil {
			held = held || part.GetHeld()
			r.items = append(r.items, part.GetItems()...)
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		r.err = fmt.Errorf("member %s: %w", peer.ID, err)
	case !held:
		r.err = errNotHeld
	}
	return r
}

// itemOf reads a thing. A volume's id and a snapshot's cannot be taken for each other.
func itemOf(i *sessionpb.InventoryItem) executor.InventoryItem {
	item := executor.InventoryItem{Kind: i.GetKind(), Path: i.GetPath()}
	if snapshot := fsm.SnapshotID(i.GetId()); snapshot.Valid() {
		item.Snapshot = snapshot
	} else {
		item.Volume = fsm.VolumeID(i.GetId())
	}
	return item
}

func itemsOf(items []*sessionpb.InventoryItem) []executor.InventoryItem {
	all := make([]executor.InventoryItem, 0, len(items))
	for _, i := range items {
		all = append(all, itemOf(i))
	}
	return all
}
