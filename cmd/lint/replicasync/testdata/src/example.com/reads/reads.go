package reads

import "example.com/fsm"

func elements(v *fsm.Volume) bool {
	for _, r := range v.Replicas {
		if r.UpToDate { // want `UpToDate of a replica`
			return true
		}
	}
	r := &v.Replicas[0]
	return r.Fresh() || v.Replicas[0].UpToDate // want `Fresh of a replica` `UpToDate of a replica`
}

func found(v *fsm.Volume) bool {
	r := v.Replica("a")
	return r.UpToDate || v.Replica("a").UpToDate // want `UpToDate of a replica` `UpToDate of a replica`
}

func replaced(v *fsm.Volume) bool {
	r := v.ActiveReplica("a")
	if r == nil {
		r = v.Replica("a")
	}
	return r.UpToDate // want `UpToDate of a replica`
}

func active(v *fsm.Volume) bool {
	for _, r := range v.ActiveReplicas() {
		if r.UpToDate {
			return true
		}
	}
	r := v.ActiveReplica("a")
	return r != nil && r.Fresh() && v.Replica("a").Host == "" && given(r)
}

func given(r *fsm.Replica) bool { return r.UpToDate && r.ReplicaSync != nil }

func swapped(v *fsm.Volume) bool {
	a, b := v.ActiveReplica("a"), v.ActiveReplica("b")
	a, b = b, a
	return a.UpToDate || b.UpToDate
}
