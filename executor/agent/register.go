package agent

import (
	"cmp"
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ActedEpoch is the highest epoch of desired state that this host acted on, with the id of its
// incarnation: a controller that has not applied as much must wait (S14).
func (a *Agent) ActedEpoch() (fsm.Epoch, []byte) { return a.acted.Current() }

// Register is the host's registration with a controller. It measures the pools.
func (a *Agent) Register() *fsmpb.RegisterNode {
	at, id := a.ActedEpoch()
	r := &fsmpb.RegisterNode{
		NodeId: string(a.Node), HostId: string(a.Host.ID), BootId: a.Host.BootID,
		Site: a.Site, MaxVolumes: a.MaxVolumes, Version: a.Version, FeatureLevel: a.FeatureLevel, Incarnation: at.Incarnation, IncarnationId: id,
	}
	if a.Addresses != nil {
		r.Addresses = a.Addresses()
	}
	r.Replication = a.replicationOffer()
	r.Labels = fsm.Topology(a.Labels).Proto()
	for _, pool := range a.Pools {
		facts := pool.Facts(a.ctx)
		r.Pools = append(r.Pools, &fsmpb.Pool{
			PoolId: string(pool.ID()), Backend: pool.Kind(), CapacityBytes: a.capacity(facts),
			OvercommitPercent: cmp.Or(a.OvercommitPercents[pool.Kind()], a.OvercommitPercent), MinFreeBytes: a.MinFree,
		})
	}
	return r
}

func (a *Agent) capacity(facts executor.PoolFacts) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Host.Capacity(facts)
}

// PoolFacts measures the pools.
func (a *Agent) PoolFacts(ctx context.Context) []executor.PoolFacts {
	var all []executor.PoolFacts
	for _, pool := range a.Pools {
		facts := pool.Facts(ctx)
		b, snapshots := pool.(executor.SnapshotBackend)
		facts.FullCopies = snapshots && !facts.Absent && !b.SharesBlocks()
		all = append(all, facts)
	}
	return all
}

// replicationOffer is what the host offers for replicated volumes, nil when it cannot hold any
// now: the kernel must be able to call its fence-peer handler (S13).
func (a *Agent) replicationOffer() *fsmpb.Replication {
	if a.Replicator == nil || a.ReplicationAddress == "" {
		return nil
	}
	if err := a.Replicator.Check(a.ctx); err != nil {
		a.Logger.Error("this host cannot hold replicated volumes", "error", err)
		return nil
	}
	version, replicas := a.Replicator.Version()
	return &fsmpb.Replication{Address: a.ReplicationAddress, PublicKey: a.PublicKey, Version: version, MaxReplicas: replicas}
}
