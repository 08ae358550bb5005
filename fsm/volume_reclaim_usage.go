package fsm

// UsageHost is the host whose pool says how much a volume occupies: where it is published, or else where its
// content is. False: no host has it.
func (s *State) UsageHost(id VolumeID) (NodeID, bool) {
	v, ok := s.Volume(id)
	if !ok {
		return "", false
	}
	publications := v.Publications()
	for i := range publications {
		if v.Replica(publications[i].Host) != nil {
			return publications[i].Node, true
		}
	}
	r := s.sourceReplica(v)
	if r == nil {
		return "", false
	}
	return r.Node, true
}
