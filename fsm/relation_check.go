package fsm

import "slices"

// checkRelations is S38, S41, S53 and S54 of all relations.
func (s *State) checkRelations() error {
	for v := range s.Volumes("") {
		if v.Relation != nil {
			if err := s.checkRelation(v.Relation, "volume "+string(v.ID), []*Volume{v}); err != nil {
				return err
			}
		}
		if v.RelationMember != nil && s.RelationOf(v) == nil {
			return violated("S53", "volume %s is a member of no relation, and recorded as one", v.ID)
		}
	}
	for g := range s.VolumeGroups("") {
		if g.Relation == nil {
			continue
		}
		var members []*Volume
		for _, id := range g.Members {
			v, ok := s.Volume(id)
			if !ok || v.Relation != nil {
				return violated("S53", "volume %s of replicated group %s is replicated by itself", id, g.ID)
			}
			members = append(members, v)
		}
		if err := s.checkRelation(g.Relation, "volume group "+string(g.ID), members); err != nil {
			return err
		}
	}
	return s.checkUnsettled()
}

func (s *State) checkRelation(r *Relation, name string, members []*Volume) error {
	switch {
	case len(r.Sites) != MaxReplicas || r.Sites[0] >= r.Sites[1] || r.Role == 0 || r.Role > s.cluster.Index:
		return violated("S38", "the relation of %s is malformed: %v", name, r)
	case r.Promoted && (!r.has(r.Primary) || r.Move != nil || r.ousted(r.Primary) != nil):
		return violated("S38", "%s has the primary %s, and %v", name, r.Primary, r)
	case r.Move != nil && (r.Move.To == r.Move.From || !r.has(r.Move.To) || !r.has(r.Move.From)):
		return violated("S38", "the role of %s moves from %s to %s", name, r.Move.From, r.Move.To)
	case !slices.IsSortedFunc(r.Claims, compareSites) || slices.ContainsFunc(r.Claims, func(c Site) bool { return !r.has(c) }):
		return violated("S37", "%s is claimed by the sites %v", name, r.Claims)
	}
	ahead := func(v *Volume) bool { return v.RelationMember != nil && v.RelationMember.Ahead }
	behind := func(v *Volume) bool { return !v.allInSync() }
	if slices.ContainsFunc(members, ahead) && !slices.ContainsFunc(members, behind) {
		return violated("S52", "%s has volumes that are ahead of others, and all are up to date", name)
	}
	for _, v := range members {
		if err := s.checkRelationMember(r, v); err != nil {
			return err
		}
	}
	return nil
}

// checkRelationMember: a publication, and so a grant, is at the primary only, and there is one replica at each site
// at most.
func (s *State) checkRelationMember(r *Relation, v *Volume) error {
	if _, ready := v.Phase.(Ready); !ready || v.isContentLost() {
		return nil
	}
	for _, p := range v.Publications() {
		restored := !r.Promoted && r.Move == nil && p.Epoch.Incarnation < s.cluster.Incarnation // nobody was promoted since
		if !r.isPrimary(s.siteOf(p.Node)) && !restored {
			return violated("S38", "volume %s is published to node %s at site %s, which is not primary", v.ID, p.Node, s.siteOf(p.Node))
		}
	}
	switch {
	case v.RelationMember == nil || v.Replication == nil:
		return violated("S53", "volume %s is in a relation and is not replicated", v.ID)
	case r.Promoted && v.Home != r.Primary:
		return violated("S35", "volume %s is at home at site %s, and site %s is primary", v.ID, v.Home, r.Primary)
	case !slices.Equal(v.Sites, r.Sites):
		return violated("S54", "volume %s has the sites %v, its relation %v", v.ID, v.Sites, r.Sites)
	}
	return nil
}

// checkUnsettled: the index of relations that later entries settle is what the records make it.
func (s *State) checkUnsettled() error {
	var want []string
	for g := range s.VolumeGroups("") {
		if g.Relation.isUnsettled() {
			want = append(want, string(g.ID))
		}
	}
	for v := range s.Volumes("") {
		if v.Relation.isUnsettled() {
			want = append(want, string(v.ID))
		}
	}
	for _, owner := range want {
		if !s.index.unsettled.Contains(owner) {
			return violated("S38", "the relation of %s is not settled, and the index does not have it", owner)
		}
	}
	return nil
}
