package fsm

type ReplicaSync struct{ UpToDate bool }

func (s *ReplicaSync) Fresh() bool { return s.UpToDate }

type Replica struct {
	Host string
	*ReplicaSync
}

type Volume struct{ Replicas []Replica }

func (v *Volume) Replica(host string) *Replica       { return &v.Replicas[0] }
func (v *Volume) ActiveReplica(host string) *Replica { return nil }
func (v *Volume) ActiveReplicas() []*Replica         { return nil }

func first(v *Volume) bool { return v.Replicas[0].UpToDate } // want `UpToDate of a replica`
