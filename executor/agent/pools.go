package agent

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// snapshotBackend is the backend of the volume's pool, which must be a SnapshotBackend.
func (p *poolSet) snapshotBackend(v *volume) (executor.SnapshotBackend, error) {
	b, err := p.backend(v)
	if err != nil {
		return nil, err
	}
	backend, ok := b.(executor.SnapshotBackend)
	if r, isReplica := b.(*replicaBackend); isReplica && r.checkSnapshotPool() != nil {
		ok = false
	}
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "the pool of volume %s can neither copy nor grow volumes", v.id)
	}
	return backend, nil
}

// replicaBackend is the volume's view as a replicated one.
func (p *poolSet) replicaBackend(v *volume) (*replicaBackend, error) {
	b, err := p.backend(v)
	if err != nil {
		return nil, err
	}
	r, ok := b.(*replicaBackend)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "volume %s is not replicated", v.id)
	}
	return r, nil
}

// backendOn is the pool's backend, or its view for a replicated volume.
func (p *poolSet) backendOn(v *volume, pool executor.Backend) (executor.Backend, error) {
	rb, err := p.newReplicaBackend(v, pool)
	if err != nil {
		return nil, err
	}
	if rb != nil {
		return rb, nil
	}
	if p.isEncrypted(v) {
		return newCryptBackend(pool)
	}
	return pool, nil
}

// newReplicaBackend is the view for a replicated volume, nil for a local one. Whether the volume is
// replicated is read once: an update may remove the replica at any moment.
func (p *poolSet) newReplicaBackend(v *volume, pool executor.Backend) (*replicaBackend, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	minor, ok := v.replicaMinor()
	if !ok {
		return nil, nil
	}
	if p.Replicator == nil {
		return nil, fsm.Reject(fsm.Precondition, "volume %s is replicated, and this host holds no replicas", v.id)
	}
	rb := &replicaBackend{Backend: pool, replicator: p.Replicator, volume: v.id, minor: minor, size: v.recordCopy.Size, header: v.headerBytes()}
	if v.desired != nil {
		rb.size = v.desired.Size
	}
	return rb, nil
}

// replicatedSource is the view for a snapshot's source when that is replicated, else nil.
func (p *poolSet) replicatedSource(d *fsm.DesiredSnapshot, pool executor.Backend) (*replicaBackend, error) {
	p.mu.Lock()
	v := p.volumes[d.Source]
	p.mu.Unlock()
	if v == nil {
		return nil, nil
	}
	rb, err := p.newReplicaBackend(v, pool)
	if rb == nil || err != nil {
		return nil, err
	}
	rb.header = 0
	if d.Encrypted {
		rb.header = executor.LUKSHeaderBytes
	}
	rb.size = d.Size // its source may have been expanded since
	return rb, rb.checkSnapshotPool()
}

// snapshotPool is the backend of the snapshot's pool.
func (p *poolSet) snapshotPool(d *fsm.DesiredSnapshot) (executor.SnapshotBackend, error) {
	b, ok := p.pools[d.Pool]
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "snapshot %s is in pool %q, which this host does not have", d.Snapshot, d.Pool)
	}
	rb, err := p.replicatedSource(d, b)
	if err != nil {
		return nil, err
	}
	if rb != nil {
		return rb, nil
	}
	if d.Encrypted {
		if b, err = newCryptBackend(b); err != nil {
			return nil, err
		}
	}
	backend, ok := b.(executor.SnapshotBackend)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "pool %s cannot take snapshots", d.Pool)
	}
	return backend, nil
}

// backend is that of the volume's pool.
func (p *poolSet) backend(v *volume) (executor.Backend, error) {
	p.mu.Lock()
	id := v.recordCopy.Pool
	if v.desired != nil && v.desired.Pool != "" {
		id = v.desired.Pool
	}
	p.mu.Unlock()
	if b, ok := p.pools[id]; ok {
		return p.backendOn(v, b)
	}
	if id == "" && len(p.Pools) == 1 {
		return p.backendOn(v, p.Pools[0])
	}
	return nil, fsm.Reject(fsm.Precondition, "volume %s is in pool %q, which this host does not have", v.id, id)
}
