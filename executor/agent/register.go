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
func (e *Agent) ActedEpoch() (fsm.Epoch, []byte) { return e.acted.Current() }

// Register is the host's registration with a controller. It measures the pools.
func (e *Agent) Register() *fsmpb.RegisterNode {
	at, _ := e.ActedEpoch()
	r := &fsmpb.RegisterNode{
		NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.BootID,
		Site: e.Site, MaxVolumes: e.MaxVolumes, Version: e.Version, FeatureLevel: e.FeatureLevel, Incarnation: at.Incarnation,
	}
	r.Replication = e.replicationOffer()
	r.Labels = fsm.Topology(e.Labels).Proto()
	for _, pool := range e.Pools {
		facts := pool.Facts(e.ctx)
		r.Pools = append(r.Pools, &fsmpb.Pool{
			PoolId: string(pool.ID()), Backend: pool.Kind(), CapacityBytes: e.capacity(facts),
			OvercommitPercent: cmp.Or(e.OvercommitPercents[pool.Kind()], e.OvercommitPercent), MinFreeBytes: e.MinFree,
		})
	}
	return r
}

func (e *Agent) capacity(facts executor.PoolFacts) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Host.Capacity(facts)
}

// PoolFacts measures the pools.
func (e *Agent) PoolFacts(ctx context.Context) []executor.PoolFacts {
	var all []executor.PoolFacts
	for _, pool := range e.Pools {
		facts := pool.Facts(ctx)
		b, snapshots := pool.(executor.SnapshotBackend)
		facts.FullCopies = snapshots && !facts.Absent && !b.SharesBlocks()
		all = append(all, facts)
	}
	return all
}

// replicationOffer is what the host offers for replicated volumes, nil when it cannot hold any
// now: the kernel must be able to call its fence-peer handler (S13).
func (e *Agent) replicationOffer() *fsmpb.Replication {
	if e.Replicator == nil || e.ReplicationAddress == "" {
		return nil
	}
	if err := e.Replicator.Check(e.ctx); err != nil {
		e.Logger.Error("this host cannot hold replicated volumes", "error", err)
		return nil
	}
	version, replicas := e.Replicator.Version()
	return &fsmpb.Replication{Address: e.ReplicationAddress, PublicKey: e.PublicKey, Version: version, MaxReplicas: replicas}
}
