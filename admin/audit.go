package admin

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// auditRounds is the maximum number of rounds of one audit. It ends earlier when two
// consecutive rounds agree on every candidate finding, or when a round has none.
const auditRounds = 4

// Audit requests an inventory from every host that is not lost, then reads the state, and
// compares them. Because the state is read after the inventories, an item that the state does
// not know was not created in between; an item that was removed in between is no longer found
// by the next round. Only what every round found is reported.
func (s *Server) Audit(ctx context.Context, _ *adminpb.AuditRequest) (*adminpb.AuditResponse, error) {
	round, err := s.auditRound(ctx)
	for range auditRounds - 1 {
		if err != nil || round.clean() {
			break
		}
		if err = sleepContext(ctx, s.AuditPause); err != nil {
			break
		}
		before := round
		if round, err = s.auditRound(ctx); err == nil {
			round.intersectSuspects(before)
		}
		if err == nil && round.suspects() == before.suspects() {
			break
		}
	}
	if err != nil {
		return nil, s.Error(err)
	}
	resp := round.response()
	s.Audited(resp)
	return resp, nil
}

func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// round is the result of one audit round.
type round struct {
	index   uint64
	checked uint64
	found   findings
	unknown []*adminpb.Unknown
}

// auditRound does one round: it collects the inventories, reads the state, and compares them.
func (s *Server) auditRound(ctx context.Context) (round, error) {
	inventories, err := s.inventories(ctx)
	if err != nil {
		return round{}, err
	}
	st, err := s.auditState(ctx)
	if err != nil {
		return round{}, err
	}
	r := round{index: st.Cluster().Index}
	for n := range st.Nodes() {
		if n.State == fsm.NodeLost {
			continue
		}
		answer, known := inventories[n.ID]
		switch {
		case !known: // registered after the inventories were collected; the next audit covers it
			r.unknown = append(r.unknown, &adminpb.Unknown{Node: string(n.ID), Detail: "registered while the audit ran"})
		case answer.err != nil:
			r.unknown = append(r.unknown, &adminpb.Unknown{Node: string(n.ID), Detail: answer.err.Error()})
			r.found.addPending(st, n)
		default:
			r.checked += r.found.compareHost(st, n, answer.Inventory)
		}
	}
	return r, nil
}

// auditState returns a copy of a state that has every entry acknowledged before the call.
func (s *Server) auditState(ctx context.Context) (*fsm.State, error) {
	if _, err := s.Cluster.Read(ctx, func(*fsm.State) error { return nil }); err != nil {
		return nil, err
	}
	return s.Cluster.Fork(), nil
}

type inventory struct {
	Inventory
	err error
}

// inventories requests the inventories of all hosts that are not lost, concurrently.
func (s *Server) inventories(ctx context.Context) (map[fsm.NodeID]inventory, error) {
	var nodes []fsm.NodeID
	_, err := s.Cluster.Read(ctx, func(st *fsm.State) error {
		nodes = nil
		for n := range st.Nodes() {
			if n.State != fsm.NodeLost {
				nodes = append(nodes, n.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make(map[fsm.NodeID]inventory, len(nodes))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, id := range nodes {
		wg.Go(func() {
			found, err := s.Hosts.Inventory(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			out[id] = inventory{Inventory: found, err: err}
		})
	}
	wg.Wait()
	return out, nil
}

func (r *round) clean() bool { return r.suspects() == 0 }

func (r *round) suspects() int {
	return len(r.found.orphans) + len(r.found.missing) + len(r.found.wrong)
}

// intersectSuspects drops the candidate findings that the previous round did not have.
func (r *round) intersectSuspects(before round) {
	r.found.orphans = intersect(r.found.orphans, before.found.orphans)
	r.found.missing = intersect(r.found.missing, before.found.missing)
	r.found.wrong = intersect(r.found.wrong, before.found.wrong)
}

func intersect(a, b []finding) []finding {
	return slices.DeleteFunc(a, func(f finding) bool { return !slices.Contains(b, f) })
}

func (r *round) response() *adminpb.AuditResponse {
	return &adminpb.AuditResponse{
		Index: r.index, Checked: r.checked, Unknown: r.unknown,
		Orphans: sortedFindings(r.found.orphans), Missing: sortedFindings(r.found.missing), Pending: sortedFindings(r.found.pending),
		Wrong: sortedFindings(r.found.wrong),
	}
}

func sortedFindings(in []finding) []*adminpb.Finding {
	slices.SortFunc(in, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.id, b.id),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.path, b.path), cmp.Compare(a.detail, b.detail))
	})
	return mapSlice(slices.Compact(in), func(f finding) *adminpb.Finding {
		return &adminpb.Finding{Node: string(f.node), Kind: f.kind, Id: f.id, Path: f.path, Detail: f.detail}
	})
}
