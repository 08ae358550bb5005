package admin

import (
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
		Addresses: mapSlice(n.HostAddresses(), netip.Addr.String), Fence: fenceText(st, n), Maintenance: n.Maintenance, OutOfService: n.OutOfService,
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

// freeCell shows the free space of a pool, empty when its host did not report it.
func freeCell(p *adminpb.Pool) string {
	if !p.GetMeasured() {
		return ""
	}
	return formatSize(p.GetFreeBytes())
}
