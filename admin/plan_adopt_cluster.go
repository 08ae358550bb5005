package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// adoptCluster takes in what hosts know and a restored log does not, and lets them act for its incarnation (S1).
const adoptCluster = "adopt-cluster"

// holdings are what one host has, or why that is not known.
type holdings struct {
	volumes map[fsm.VolumeID]*fsmpb.HeldVolume
	images  map[fsm.VolumeID]bool
	// snapshots are what it has of each; snapshotImages are what is in its pools.
	snapshots      map[fsm.SnapshotID]*fsmpb.HeldSnapshot
	snapshotImages map[fsm.SnapshotID]bool
	// revocations are those that it remembers of a lost log.
	revocations []*fsmpb.RevokeIdentity
	err         error
}

// has tells whether the host has a device of the volume.
func (h *holdings) has(id fsm.VolumeID) bool { return h.images[id] }

// removed tells whether the host removed its device as the lost log said.
func (h *holdings) removed(id fsm.VolumeID) bool { return h.volumes[id].GetRemoved() && !h.images[id] }

// askHoldings asks all hosts at the same time.
func (s *Server) askHoldings(ctx context.Context, req *adminpb.PlanRequest) (map[fsm.NodeID]holdings, error) {
	if req.GetVerb() != adoptCluster {
		return nil, nil
	}
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
	all := make(map[fsm.NodeID]holdings, len(nodes))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range nodes {
		wg.Go(func() {
			found := s.askHoldingsOf(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			all[node] = found
		})
	}
	wg.Wait()
	return all, nil
}

func (s *Server) askHoldingsOf(ctx context.Context, node fsm.NodeID) holdings {
	h := holdings{
		volumes: map[fsm.VolumeID]*fsmpb.HeldVolume{}, images: map[fsm.VolumeID]bool{},
		snapshots: map[fsm.SnapshotID]*fsmpb.HeldSnapshot{}, snapshotImages: map[fsm.SnapshotID]bool{},
	}
	held, err := s.Hosts.Held(ctx, node)
	if err != nil {
		h.err = err
		return h
	}
	h.revocations = held.Revocations
	for _, v := range held.Volumes {
		h.volumes[fsm.VolumeID(v.GetManifest().GetVolumeId())] = v
	}
	for _, n := range held.Snapshots {
		if id := fsm.SnapshotID(n.GetManifest().GetSnapshotId()); id.Valid() {
			h.snapshots[id] = n
		}
	}
	found, err := s.Hosts.Inventory(ctx, node)
	for _, item := range found.Items {
		if item.Kind == kindImage && item.ID.Valid() {
			h.images[item.ID] = true
		}
		if item.Kind == kindSnapshot && item.Snapshot.Valid() {
			h.snapshotImages[item.Snapshot] = true
		}
	}
	h.err = err
	return h
}

// adoption makes the plan of adopt-cluster.
type adoption struct {
	*planner
	// open are the nodes of which something waits for another host: they are adopted after that.
	open map[fsm.NodeID]string
}

// planAdoptCluster takes in volumes first and lets the hosts act then: from there on they do what this log says.
func (p *planner) planAdoptCluster() error {
	p.incarnation = p.state.Cluster().Incarnation
	if asked := p.req.GetIncarnation(); asked != 0 && asked != p.incarnation {
		return fsm.Reject(fsm.StaleEpoch, "the cluster is at incarnation %d, not %d: look at the plan again", p.incarnation, asked)
	}
	a := &adoption{planner: p, open: map[fsm.NodeID]string{}}
	if a.replacesIncarnation() {
		return nil
	}
	a.adoptRevocations()
	for _, id := range a.heldVolumes() {
		a.adoptVolume(id)
	}
	a.adoptSnapshots()
	a.listGroups()
	a.forgetMissing()
	a.forgetGivenBack()
	a.forgetMissingSnapshots()
	a.listOrphans()
	a.listOrphanSnapshots()
	a.adoptNodes()
	return nil
}

// replacesIncarnation: a host met a later life of the cluster than this one, which was restored from an older backup, or
// twice. It acts for none that is not above all that it met.
func (a *adoption) replacesIncarnation() bool {
	highest := a.incarnation
	for n := range a.state.Nodes() {
		if n.State != fsm.NodeLost {
			highest = max(highest, n.Incarnation)
		}
	}
	if highest == a.incarnation {
		return false
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	a.addCommand(step{action: "replace-incarnation", detail: fmt.Sprintf("a host met incarnation %d, above this cluster's %d: it becomes %d; then look at the plan again", highest, a.incarnation, highest+1)},
		&fsmpb.Command{Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{Counter: highest + 1, IncarnationId: id}}})
	return true
}

// heldVolumes are the volumes of which a host has a device and what the lost log said of it.
func (a *adoption) heldVolumes() []fsm.VolumeID {
	ids := map[fsm.VolumeID]bool{}
	for _, h := range a.holdings {
		for id, held := range h.volumes {
			if h.has(id) && held.GetManifest() != nil && held.GetAt().GetIncarnation() < a.incarnation {
				ids[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// adoptVolume adds the step that takes the volume in, or what the lost log said of it last.
func (a *adoption) adoptVolume(id fsm.VolumeID) {
	if a.reachedTodoLimit() {
		return
	}
	cmd := &fsmpb.AdoptVolume{VolumeId: string(id)}
	var first *fsmpb.VolumeManifest // what was said last
	var newest fsm.Epoch
	for _, node := range slices.Sorted(maps.Keys(a.holdings)) {
		h := a.holdings[node]
		held := h.volumes[id]
		n, ok := a.state.Node(node)
		if !ok || !h.has(id) || held.GetManifest() == nil || held.GetAt().GetIncarnation() >= a.incarnation {
			continue
		}
		cmd.Replicas = append(cmd.Replicas, &fsmpb.AdoptedReplica{NodeId: string(n.ID), HostId: string(n.Host), Held: held})
		if at := fsm.EpochFrom(held.GetAt()); first == nil || at.Compare(newest) > 0 {
			first, newest = held.GetManifest(), at
		}
	}
	before, known := a.state.Volume(id)
	view := before
	if !known {
		view = &fsm.Volume{ID: id, Name: first.GetName()}
	}
	t := step{action: "adopt", volume: view, node: fsm.NodeID(cmd.GetReplicas()[0].GetNodeId()), detail: adoptDetail(before, first)}
	if missing := a.missingHost(before, first.GetReplication(), cmd); missing != "" {
		t.state, t.detail = stepWaiting, missing
		a.add(t)
		a.holdBack(cmd, missing)
		return
	}
	a.tryAdopt(t, known, &fsmpb.Command{Body: &fsmpb.Command_AdoptVolume{AdoptVolume: cmd}})
}

// tryAdopt adds the step unless the log knows all of it.
func (a *adoption) tryAdopt(t step, known bool, cmd *fsmpb.Command) {
	modified := uint64(0)
	if known {
		modified = t.volume.Modified
	}
	err := a.dryRun(cmd)
	now, _ := a.state.Volume(t.volume.ID)
	switch {
	case err != nil:
		t.state, t.detail = stepBlocked, err.Error()
		a.holdBack(cmd.GetAdoptVolume(), "`holdfast nodes adopt` adopts it without that: "+err.Error())
	case known && now.Modified == modified:
		return
	default:
		t.state, t.command = stepTodo, cmd
	}
	a.add(t)
}

// holdBack keeps the hosts in adoption mode: once adopted they do what this log says, and keep no more what the lost one said.
func (a *adoption) holdBack(cmd *fsmpb.AdoptVolume, why string) {
	for _, r := range cmd.GetReplicas() {
		a.open[fsm.NodeID(r.GetNodeId())] = why
	}
}

func adoptDetail(v *fsm.Volume, m *fsmpb.VolumeManifest) string {
	use := "nobody uses it"
	if p := m.GetPublication(); p != nil {
		use = "it is published there"
		if p.GetStaging() != nil {
			use = "it is staged there"
		}
	}
	if v == nil {
		return fmt.Sprintf("this log does not know it: %d bytes, %s", m.GetSizeBytes(), use)
	}
	if _, failed := v.Phase.(fsm.Failed); failed {
		return fmt.Sprintf("this log has it on lost hosts only, and the lost log had replicated it elsewhere: %d bytes, %s; alone it takes `holdfast volumes force-primary` before it is used anew", m.GetSizeBytes(), use)
	}
	return fmt.Sprintf("the lost log said more of it than this one: %d bytes, %s", m.GetSizeBytes(), use)
}

// missingHost says which host has the other replica and did not say so: adopted without it, that replica would be lost to
// the log. A host that this log has the volume on alone is given up by its own verb only.
func (a *adoption) missingHost(v *fsm.Volume, r *fsmpb.ReplicationManifest, cmd *fsmpb.AdoptVolume) string {
	for _, h := range r.GetHosts() {
		named := slices.ContainsFunc(cmd.GetReplicas(), func(r *fsmpb.AdoptedReplica) bool { return r.GetHostId() == h.GetHostId() })
		n, known := a.state.Node(fsm.NodeID(h.GetNodeId()))
		lost := known && string(n.Host) == h.GetHostId() && n.State == fsm.NodeLost
		answered := known && string(n.Host) == h.GetHostId() && a.holdings[n.ID].err == nil
		switch waits := !named && !lost && !answered && !slices.Contains(a.req.GetWithout(), h.GetNodeId()); {
		case waits && isPlainOn(v, fsm.HostID(h.GetHostId())):
			return fmt.Sprintf("host %s of node %s is the only one that this log has it on, and has not answered: start it, or record it as lost if it is gone for good: `holdfast nodes lost %s`", h.GetHostId(), h.GetNodeId(), h.GetNodeId())
		case waits:
			return fmt.Sprintf("host %s of node %s has its other replica and has not answered: start it, or say --without %s if that is gone for good", h.GetHostId(), h.GetNodeId(), h.GetNodeId())
		}
	}
	return ""
}

// isPlainOn tells whether the log has the volume on that host, and on no other one.
func isPlainOn(v *fsm.Volume, host fsm.HostID) bool {
	return v != nil && v.Replication == nil && v.Replica(host) != nil
}
