package fsm

import "slices"

// Relation is the replication of a volume, or of all volumes of a group, between two sites. It says which site
// may use them. Which host may write, and which replica has every write, is decided below it as for every
// replicated volume: the relation only bounds which host is published and asked (S38). A *Relation that came out
// of a State is immutable.
type Relation struct {
	Sites []Site // sorted
	// ReplicationID is what its caller named it, empty for none.
	ReplicationID string
	// Promoted: Primary is the site that may use it. Otherwise both sites are demoted, or Move says who takes over.
	Promoted bool
	Primary  Site
	// Role is the index at which the role moved last: the relation's epoch. A command that names another one was
	// decided before (S39).
	Role uint64
	// Move is a promotion under way: nobody uses the volumes while it stands.
	Move *Move
	// Ousted are the sites that lost the role without having demoted, sorted (S41).
	Ousted []Ousted
	// Claims are the sites whose orchestrators asked for the relation, sorted (S37). The primary claims always.
	Claims []Site
	// DiscardUnkept: what a replica had is not kept before it is overwritten or discarded.
	DiscardUnkept bool
	// Separately: verdicts on the members of a group are not held back for each other (S52).
	Separately bool
	// FreezeIsolated: a primary without its peer and without controllers suspends its I/O (S45).
	FreezeIsolated bool
	// Cut is the index from which on the members of a group disconnect, so that their peers are of one instant; 0:
	// they do not (S52).
	Cut     uint64
	Enabled uint64 // the index at which it was made
}

// Move is a promotion that waits until the former primary's hosts can write no more (S42).
type Move struct {
	To, From Site
	Index    uint64
}

// Ousted is a site that lost the role without having demoted (S41).
type Ousted struct {
	Site   Site
	Index  uint64 // when
	Forced bool   // its content may be the newer one, and stays apart (S48)
}

// isPrimary tells whether the site has the role.
func (r *Relation) isPrimary(site Site) bool { return r.Promoted && r.Primary == site }

// has tells whether the site is one of the two.
func (r *Relation) has(site Site) bool { return r.Sites[0] == site || r.Sites[1] == site }

// other is the other one of the two sites.
func (r *Relation) other(site Site) Site {
	if r.Sites[0] == site {
		return r.Sites[1]
	}
	return r.Sites[0]
}

// ousted is the record of a site that lost the role, nil when it may be promoted.
func (r *Relation) ousted(site Site) *Ousted {
	for i := range r.Ousted {
		if r.Ousted[i].Site == site {
			return &r.Ousted[i]
		}
	}
	return nil
}

// claims tells whether the site's orchestrator asked for the relation and did not end that.
func (r *Relation) claims(site Site) bool {
	return slices.Contains(r.Claims, site) || r.isPrimary(site)
}

// isUnsettled tells whether later entries may change the role, or end a cut, without a command.
func (r *Relation) isUnsettled() bool { return r != nil && (r.Move != nil || r.Cut != 0) }

// The with-functions are copies; what they share with the original is never written to.

// withRole gives the role to a site.
func (r *Relation) withRole(site Site, index uint64) Relation {
	updated := r.withoutOusted(site)
	updated.Promoted, updated.Primary, updated.Role = true, site, index
	updated.Move, updated.Cut = nil, 0
	return updated
}

func (r *Relation) withoutOusted(site Site) Relation {
	updated := *r
	updated.Ousted = slices.DeleteFunc(slices.Clone(r.Ousted), func(o Ousted) bool { return o.Site == site })
	if len(updated.Ousted) == 0 {
		updated.Ousted = nil
	}
	return updated
}

func (r *Relation) withOusted(o Ousted) Relation {
	updated := r.withoutOusted(o.Site)
	updated.Ousted = append(updated.Ousted, o)
	slices.SortFunc(updated.Ousted, func(a, b Ousted) int { return compareSites(a.Site, b.Site) })
	return updated
}

func (r *Relation) withClaim(site Site) Relation {
	updated := *r
	if !slices.Contains(r.Claims, site) {
		updated.Claims = append(slices.Clone(r.Claims), site)
		slices.SortFunc(updated.Claims, compareSites)
	}
	return updated
}

func (r *Relation) withoutClaim(site Site) Relation {
	updated := *r
	updated.Claims = slices.DeleteFunc(slices.Clone(r.Claims), func(c Site) bool { return c == site })
	return updated
}
