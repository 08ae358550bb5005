package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxRisks bounds each list of an answer.
const maxRisks = 5000

// AtRisk says what would happen if the hosts and controllers of the request stopped now. A site stops with its hosts and
// its controllers.
func (s *Server) AtRisk(ctx context.Context, req *adminpb.AtRiskRequest) (*adminpb.AtRiskResponse, error) {
	if len(req.GetNodes())+len(req.GetZones())+len(req.GetSites())+len(req.GetMembers()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "say what is at risk: name a node, a zone, a site or a member that stops")
	}
	release, err := s.acquirePlan(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &riskRequest{AtRiskRequest: req, st: st, resp: &adminpb.AtRiskResponse{Index: st.Cluster().Index}}
	if len(req.GetSites())+len(req.GetMembers()) > 0 {
		r.members = s.Cluster.Members(ctx, 0)
	}
	if err := cmp.Or(r.findNodes(), r.findMembers()); err != nil {
		return nil, err
	}
	r.answer()
	return r.resp, nil
}

// riskRequest is a request that is being answered.
type riskRequest struct {
	*adminpb.AtRiskRequest
	st      *fsm.State
	members []Member
	stops   map[string]bool // members that stop, by Raft's id
	failure fsm.Failure
	resp    *adminpb.AtRiskResponse
}

// findNodes finds the hosts that stop.
func (r *riskRequest) findNodes() error {
	for _, domain := range []struct {
		kind  fsm.FailureDomain
		names []string
	}{{fsm.DomainNode, r.GetNodes()}, {fsm.DomainZone, r.GetZones()}, {fsm.DomainSite, r.GetSites()}} {
		for _, name := range domain.names {
			nodes := r.st.NodesIn(domain.kind, name)
			if len(nodes) == 0 && (domain.kind != fsm.DomainSite || !r.isSiteOfMember(name)) {
				return status.Errorf(codes.NotFound, "no host that is registered is, or is in, %s %q", domain.kind, name)
			}
			r.failure.Nodes = append(r.failure.Nodes, nodes...)
		}
	}
	slices.Sort(r.failure.Nodes)
	r.failure.Nodes = slices.Compact(r.failure.Nodes)
	return nil
}

func (r *riskRequest) isSiteOfMember(site string) bool {
	return slices.ContainsFunc(r.members, func(m Member) bool { return r.siteOf(&m) == site })
}

// siteOf is the site that a member acts for; one that does not answer is looked up in the state.
func (r *riskRequest) siteOf(m *Member) string {
	if m.Err == nil {
		return fsm.SiteFrom(m.Site).String()
	}
	for _, known := range r.st.Cluster().Members {
		if known.ID == m.MemberID {
			return known.Site.String()
		}
	}
	return ""
}

// findMembers finds the controllers that stop.
func (r *riskRequest) findMembers() error {
	r.stops = map[string]bool{}
	for _, name := range r.GetMembers() {
		p := &memberPlanner{members: r.members, req: &adminpb.MemberPlanRequest{Member: name}}
		m, err := p.findMember()
		switch {
		case err != nil:
			return err
		case m == nil:
			return status.Errorf(codes.NotFound, "no member has the id, name or address %q; `holdfast members list` shows them", name)
		}
		r.stops[m.MemberID] = true
	}
	for i := range r.members {
		if m := &r.members[i]; slices.Contains(r.GetSites(), r.siteOf(m)) {
			r.stops[m.MemberID] = true
		}
	}
	return nil
}

// answer computes what happens.
func (r *riskRequest) answer() {
	if len(r.stops) > 0 {
		q := QuorumWithout(r.members, func(m *Member) bool { return r.stops[m.MemberID] })
		r.failure.NoQuorum, r.resp.Quorum = !q.Holds(), q.view()
	}
	for i := range r.members {
		if m := &r.members[i]; r.stops[m.MemberID] {
			r.resp.Members = append(r.resp.Members, cmp.Or(m.Name, m.MemberID))
		}
	}
	slices.Sort(r.resp.Members)
	r.resp.Nodes = mapSlice(r.failure.Nodes, func(id fsm.NodeID) string { return string(id) })
	impact := r.st.IfStopped(r.failure)
	slices.SortStableFunc(impact.Volumes, func(a, b fsm.VolumeImpact) int { return cmp.Compare(b.Impact, a.Impact) })
	r.resp.Safe = impact.Worst() < fsm.ImpactFrozen && !r.failure.NoQuorum
	r.resp.Summary = r.summary(&impact)
	r.resp.Volumes = mapSlice(listed(impact.Volumes, &r.resp.More), volumeRiskView)
	r.resp.Publications = mapSlice(listed(impact.Publications, &r.resp.More), publicationRiskView)
	r.resp.Snapshots = mapSlice(listed(impact.Snapshots, &r.resp.More), func(snap *fsm.Snapshot) *adminpb.SnapshotRisk {
		return &adminpb.SnapshotRisk{Snapshot: string(snap.ID), Name: snap.Name, Source: string(snap.Source), Node: string(snap.Node), Kept: snap.KeptCopy != nil}
	})
}

// listed is the first part of a list, and counts the rest.
func listed[T any](all []T, more *uint64) []T {
	n := min(len(all), maxRisks)
	*more += uint64(len(all) - n)
	return all[:n]
}

func volumeRiskView(v fsm.VolumeImpact) *adminpb.VolumeRisk {
	return &adminpb.VolumeRisk{Volume: string(v.Volume.ID), Name: v.Volume.Name, Impact: v.Impact.String(), Reason: v.Reason, Used: v.Used}
}

func publicationRiskView(p fsm.PublicationImpact) *adminpb.PublicationRisk {
	return &adminpb.PublicationRisk{Volume: string(p.Volume.ID), Name: p.Volume.Name, Node: string(p.Node)}
}

// summary counts the volumes by what happens to them.
func (r *riskRequest) summary(impact *fsm.FailureImpact) string {
	count := map[fsm.Impact]int{}
	for i := range impact.Volumes {
		count[impact.Volumes[i].Impact]++
	}
	var parts []string
	for _, i := range []fsm.Impact{fsm.ImpactLost, fsm.ImpactFrozen, fsm.ImpactUnavailable, fsm.ImpactDegraded} {
		parts = append(parts, fmt.Sprintf("%d %s", count[i], i))
	}
	text := fmt.Sprintf("volumes: %s; %s end; %s only there", strings.Join(parts, ", "), CountOf(len(impact.Publications), "publication"), CountOf(len(impact.Snapshots), "snapshot"))
	if q := r.resp.GetQuorum(); q != nil {
		text += fmt.Sprintf("; controllers: %d of %d voters are left that are ready, a quorum is %d", q.GetLeft(), q.GetVoters(), q.GetNeeded())
	}
	if r.failure.NoQuorum {
		text += ": NOTHING WOULD BE DECIDED"
	}
	return text
}
