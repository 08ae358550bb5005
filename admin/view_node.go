package admin

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func nodeView(st *fsm.State, n *fsm.Node) *adminpb.Node {
	return &adminpb.Node{
		Id: string(n.ID), HostId: string(n.Host), BootId: n.Boot, State: n.State.String(),
		Site: n.Site, Version: n.Version, MaxVolumes: n.MaxVolumes,
		Adopted:  n.Incarnation == st.Cluster().Incarnation,
		Pools:    mapSlice(n.Pools, func(p fsm.Pool) *adminpb.Pool { return poolView(st, p) }),
		Labels:   fsm.Topology(n.Labels).Proto(),
		Cordoned: n.Cordoned, NoNewReplicas: n.NoNewReplicas, ReplicationAddress: n.Replication.Address,
		ReplicationVersion: n.Replication.Version, MaxReplicas: n.Replication.MaxReplicas,
		Addresses: mapSlice(n.HostAddresses(), netip.Addr.String), Fence: fenceText(st, n), Maintenance: n.Maintenance,
	}
}

func poolView(st *fsm.State, p fsm.Pool) *adminpb.Pool {
	reserved, volumes := st.PoolUse(p.ID)
	return &adminpb.Pool{
		Id: string(p.ID), Backend: p.Backend, CapacityBytes: p.Capacity,
		ReservedBytes: reserved, Volumes: uint64(volumes), //nolint:gosec // a count
		OvercommitPercent: p.OvercommitPercent, MinFreeBytes: p.MinFree,
	}
}

func nodesTable(w io.Writer, a *adminpb.NodesResponse) {
	row(w, "NODE", "STATE", "SITE", "VOLUMES", "PUBLISHED", "POOL", "CAPACITY", "FREE", "RESERVED", "HOST", "VERSION", "DRBD", "POOL CONDITION")
	for _, n := range a.GetNodes() {
		state := n.GetState()
		if !n.GetAdopted() && state != "lost" {
			state += ", adoption"
		}
		if n.GetCordoned() {
			state += ", cordoned"
		}
		if n.GetMaintenance() != 0 {
			state += fmt.Sprintf(", in maintenance since %d", n.GetMaintenance())
		}
		if n.GetFence() != "" {
			state += ", fenced"
		}
		if n.GetNoNewReplicas() {
			state += ", no new replicas"
		}
		if n.GetCertificate() != "" {
			state += ", " + n.GetCertificate()
		}
		for _, p := range n.GetPools() {
			row(w, n.GetId(), state, n.GetSite(), n.GetVolumes(), n.GetPublications(), p.GetId(),
				formatSize(p.GetCapacityBytes()), freeCell(p), formatSize(p.GetReservedBytes()), n.GetHostId(), n.GetVersion(), n.GetReplicationVersion(), p.GetCondition())
		}
		if len(n.GetPools()) == 0 {
			row(w, n.GetId(), state, n.GetSite(), n.GetVolumes(), n.GetPublications(), "", "", "", "", n.GetHostId(), n.GetVersion(), n.GetReplicationVersion(), "")
		}
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

// freeCell shows the free space of a pool, empty when its host did not report it.
func freeCell(p *adminpb.Pool) string {
	if !p.GetMeasured() {
		return ""
	}
	return formatSize(p.GetFreeBytes())
}
