package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Unconverted is what is left of a conversion that was undone: a host has yet to remove the replica that it was
// given, with this device number and port.
type Unconverted struct {
	Protocol    fsmpb.Protocol
	Minor, Port uint32
	Seed        HostID // whose device has the content
	Generation  uint64
}

// replication is what the host that removes the rest is told.
func (u *Unconverted) replication() *Replication {
	if u == nil {
		return nil
	}
	return &Replication{Protocol: u.Protocol, ReplicaCount: MaxReplicas, Minor: u.Minor, Port: u.Port, Seed: u.Seed, Generation: u.Generation}
}

// withoutLostRest is a volume whose conversion was undone after the loss of a host.
func (v *Volume) withoutLostRest(host HostID) Volume {
	if v.allGone() {
		return v.withoutUnconverted()
	}
	updated := v.withoutReplica(host)
	return updated.withoutUnconverted()
}

func (u *Unconverted) hash(e *encoder) {
	if u == nil {
		return
	}
	e.u64(fieldUnconverted)
	e.u64(uint64(u.Protocol))
	e.u64(uint64(u.Minor))
	e.u64(uint64(u.Port))
	e.str(string(u.Seed))
	e.u64(u.Generation)
}

func (u *Unconverted) record() *fsmpb.ReplicationRecord {
	if u == nil {
		return nil
	}
	return &fsmpb.ReplicationRecord{Protocol: u.Protocol, Minor: u.Minor, Port: u.Port, SeedHostId: string(u.Seed), Generation: u.Generation}
}

func unconvertedFrom(p *fsmpb.ReplicationRecord, err *error) *Unconverted {
	r := replicationFromRecord(p, err)
	if r == nil {
		return nil
	}
	return &Unconverted{Protocol: r.Protocol, Minor: r.Minor, Port: r.Port, Seed: r.Seed, Generation: r.Generation}
}
