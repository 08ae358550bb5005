package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// statusTimeout bounds the wait for a linearizable read, and then the wait for the members' answers.
const statusTimeout = 2 * time.Second

// Status reads the commit index, then requests from every member the hash of its state at that index.
// Without a quorum it returns what this member knows, and no leader.
func (s *Server) Status(ctx context.Context, _ *adminpb.StatusRequest) (*adminpb.StatusResponse, error) {
	resp := &adminpb.StatusResponse{}
	index, quorum := s.statusRead(ctx, resp)
	resp.Index = index
	askCtx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	members := s.Cluster.Members(askCtx, index)
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MemberID, b.MemberID))
	})
	resp.Members = mapSlice(members, memberView)
	resp.Term = slices.Max(append(mapSlice(members, func(m Member) uint64 { return m.Term }), 0))
	if quorum {
		resp.Leader = leader(members, resp.GetTerm())
	}
	return resp, nil
}

// statusRead returns the index of a linearizable read, or, without a quorum, the index that this
// member has applied.
func (s *Server) statusRead(ctx context.Context, resp *adminpb.StatusResponse) (index uint64, quorum bool) {
	fill := func(st *fsm.State) error {
		c := st.Cluster()
		resp.ClusterId, resp.Incarnation, resp.FeatureLevel = c.ID, c.Incarnation, c.FeatureLevel
		resp.Checkpoint = &adminpb.Checkpoint{Index: c.Checkpoint.Index, Hash: c.Checkpoint.Hash}
		index = c.Index
		return nil
	}
	defer func() { resp.Volumes, resp.Snapshots, resp.Operations = counts(s.Cluster.Fork()) }() // counting takes long, so it uses a copy instead of a read that holds the lock
	reading, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if at, err := s.Cluster.Read(reading, fill); err == nil {
		return at, true
	}
	_ = s.Cluster.View(fill) // fill never fails
	return index, false
}

func counts(st *fsm.State) (volumes, snapshots, operations uint64) {
	return uint64(st.VolumeCount()), uint64(st.SnapshotCount()), uint64(len(allOperations(st))) //nolint:gosec // counts
}

// leader returns the name of the member that leads in the highest term: a deposed leader may still
// report that it leads.
func leader(members []Member, term uint64) string {
	for _, m := range members {
		if m.Err == nil && m.Role == "leader" && m.Term == term {
			return m.Name
		}
	}
	return ""
}

func memberView(m Member) *adminpb.Member {
	out := &adminpb.Member{Id: m.Name, MemberId: m.MemberID, Address: m.Address, Voter: m.Voter}
	if m.Err != nil {
		out.Detail = m.Err.Error()
		return out
	}
	out.Role, out.AppliedIndex = m.Role, m.Applied
	out.StateHash, out.HashIndex = m.Hash, m.HashIndex
	out.LastLogIndex, out.LastLogTerm = m.LastIndex, m.LastTerm
	out.Reachable, out.Version, out.LogStore = true, m.Version, m.LogStore
	out.Zone, out.EnrollAddress = m.Zone, m.EnrollAddr
	if len(m.Certificates) > 0 {
		out.Detail = expiryText(m.Certificates[0], time.Now())
	}
	return out
}
