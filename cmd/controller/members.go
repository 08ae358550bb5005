package controller

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// statusTimeout bounds one member's answer with its status.
const statusTimeout = 1500 * time.Millisecond

// adminCluster adapts the cluster to the operators' API.
type adminCluster struct {
	*cluster
	lastNames sync.Map // names of members by their Raft id, from their last answer
}

// Fork copies the member's own state. Before the member runs it is empty.
func (c *adminCluster) Fork() *fsm.State {
	m, err := c.member()
	if err != nil {
		return fsm.New()
	}
	return m.Fork()
}

// History reads the member's journal.
func (c *adminCluster) History(from, to uint64, fn func(admin.Entry) bool) (uint64, error) {
	m, err := c.member()
	if err != nil {
		return 0, err
	}
	return m.History(from, to, func(e raftnode.Entry) bool {
		return fn(admin.Entry{Index: e.Index, Term: e.Term, Command: e.Command, Outcome: e.Outcome, GapTo: e.GapTo, GapReason: e.Reason, Chain: e.Chain})
	})
}

// StoredDump reads a Raft snapshot of the member.
func (c *adminCluster) StoredDump(below uint64, w io.Writer) (uint64, error) {
	m, err := c.member()
	if err != nil {
		return 0, err
	}
	return m.StoredDump(below, w)
}

// Members asks all members at once.
func (c *adminCluster) Members(ctx context.Context, hashAt uint64) []admin.Member {
	m, err := c.member()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	peers := m.Peers()
	out := make([]admin.Member, len(peers))
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() { out[i] = c.memberStatus(ctx, m, p, hashAt) })
	}
	wg.Wait()
	return out
}

func (c *adminCluster) memberStatus(ctx context.Context, m *raftnode.Member, p raftnode.Peer, hashAt uint64) admin.Member {
	sent := time.Now()
	resp, err := askStatus(ctx, m, p, hashAt)
	if err != nil {
		name, _ := c.lastNames.Load(p.ID)
		lastName, _ := name.(string)
		return admin.Member{MemberID: p.ID, Name: lastName, Address: p.Addr, Voter: p.Voter, Self: p.Self, Err: err}
	}
	c.lastNames.Store(p.ID, resp.GetName())
	// A member waits for its state's hash before it reads its clock, so the offset is known no better than this.
	within := time.Since(sent) / 2
	return admin.Member{
		ClockKnown: resp.GetClockUnixNano() != 0, ClockAhead: time.Unix(0, resp.GetClockUnixNano()).Sub(sent.Add(within)), ClockWithin: within,
		Name: resp.GetName(), MemberID: p.ID, Address: p.Addr, APIAddress: apiAddress(resp, p), Voter: p.Voter, Self: p.Self, Role: resp.GetRole(), Term: resp.GetTerm(),
		Applied: resp.GetAppliedIndex(), Commit: resp.GetCommitIndex(),
		Hash: resp.GetStateHash(), HashIndex: resp.GetHashIndex(),
		LastIndex: resp.GetLastLogIndex(), LastTerm: resp.GetLastLogTerm(),
		Site: resp.GetSite(), Zone: resp.GetZone(), EnrollAddr: resp.GetEnrollAddr(), Version: resp.GetVersion(), LogStore: resp.GetLogStore(), Level: resp.GetFeatureLevel(),
		Trouble: resp.GetTrouble(), DiskFree: resp.GetDiskFreeBytes(), SlowestSync: time.Duration(resp.GetSlowestSyncNano()),
		Certificates: certificatesOf(resp),
	}
}

// apiAddress is what hosts dial; empty: the member does not say.
func apiAddress(s *raftpb.StatusResponse, p raftnode.Peer) string {
	if s.GetApiAddr() == "" {
		return ""
	}
	return dialable(s.GetApiAddr(), p.Addr)
}

func certificatesOf(resp *raftpb.StatusResponse) (all []admin.Certificate) {
	for _, c := range resp.GetCertificates() {
		all = append(all, admin.Certificate{
			Role: c.GetRole(), Name: c.GetName(), Serial: c.GetSerial(), Issuer: c.GetIssuer(),
			Issued: time.Unix(0, c.GetIssued()), NotAfter: time.Unix(0, c.GetNotAfter()),
		})
	}
	return all
}

func askStatus(ctx context.Context, m *raftnode.Member, p raftnode.Peer, hashAt uint64) (*raftpb.StatusResponse, error) {
	if p.Self {
		return m.Status(ctx, hashAt)
	}
	conn, err := m.Dial(p.ID)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", p.Addr, err)
	}
	resp, err := raftpb.NewMemberClient(conn).Status(ctx, &raftpb.StatusRequest{HashAt: hashAt})
	if err != nil {
		return nil, fmt.Errorf("ask %s: %s", p.Addr, admin.Reason(err))
	}
	return resp, nil
}

// hostQueries sends queries to hosts.
type hostQueries struct{ members *session.Members }

// Pools returns what hosts measured of their pools.
func (h hostQueries) Pools(ctx context.Context) map[fsm.PoolID]admin.PoolState {
	pools := map[fsm.PoolID]admin.PoolState{}
	for id, p := range h.members.Pools(ctx) {
		pools[id] = admin.PoolState{Free: p.Free, Capacity: p.Capacity, Absent: p.Absent, Copies: p.FullCopies, Detail: p.Detail}
	}
	return pools
}

// HeaderBackup asks one host, through whichever member has its session.
func (h hostQueries) HeaderBackup(ctx context.Context, node fsm.NodeID, volume fsm.VolumeID) (admin.HeaderBackup, error) {
	facts, err := h.members.VolumeFacts(ctx, node, volume)
	return admin.HeaderBackup{UUID: facts.HeaderBackup, Generation: facts.HeaderBackupGeneration}, err
}

// Held queries one host for what it has of each volume and snapshot, and for what it remembers of a lost log's revocations.
func (h hostQueries) Held(ctx context.Context, node fsm.NodeID) (all admin.Held, err error) {
	items, err := h.members.Held(ctx, node)
	for _, i := range items {
		if err := addHeld(&all, i); err != nil {
			return admin.Held{}, fmt.Errorf("read what node %s has of %s%s and remembers: %w", node, i.Volume, i.Snapshot, err)
		}
	}
	return all, err
}

func addHeld(all *admin.Held, i executor.InventoryItem) error {
	switch i.Kind {
	case executor.KindRevocation:
		revoked := &fsmpb.RevokeIdentity{}
		all.Revocations = append(all.Revocations, revoked)
		return proto.Unmarshal([]byte(i.Held), revoked)
	case executor.KindHeldSnapshot:
		held := &fsmpb.HeldSnapshot{}
		all.Snapshots = append(all.Snapshots, held)
		return proto.Unmarshal([]byte(i.Held), held)
	}
	held := &fsmpb.HeldVolume{}
	all.Volumes = append(all.Volumes, held)
	return proto.Unmarshal([]byte(i.Held), held)
}

// Candidates queries one host for what could be imported there.
func (h hostQueries) Candidates(ctx context.Context, node fsm.NodeID) (all []*fsmpb.ImportCandidate, err error) {
	items, err := h.members.Candidates(ctx, node)
	for _, i := range items {
		c := &fsmpb.ImportCandidate{}
		if err := proto.Unmarshal([]byte(i.Candidate), c); err != nil {
			return nil, fmt.Errorf("read what node %s has at %s: %w", node, i.Path, err)
		}
		all = append(all, c)
	}
	return all, err
}

// Inventory queries one host, through whichever member has its session.
func (h hostQueries) Inventory(ctx context.Context, node fsm.NodeID) (admin.Inventory, error) {
	found, err := h.members.Inventory(ctx, node)
	if err != nil {
		return admin.Inventory{}, err
	}
	inventory := admin.Inventory{Items: make([]admin.Item, 0, len(found.Items)), Encryption: found.Encryption}
	for _, i := range found.Items {
		inventory.Items = append(inventory.Items, admin.Item{
			Kind: i.Kind, ID: i.Volume, Snapshot: i.Snapshot, Path: i.Path,
			HeaderRead: i.HeaderRead, HeaderUUID: i.HeaderUUID, WrongDevice: i.WrongDevice,
		})
	}
	return inventory, nil
}
