package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Member is a controller that acts for a site.
type Member struct {
	Name string // by its certificate
	ID   string // Raft's
	Site Site
}

// SiteOfMember is the site that a controller acts for; one that is not on record acts for DefaultSite.
func (s *State) SiteOfMember(name string) (site Site, known bool) {
	i, known := s.cluster.member(name)
	if !known {
		return "", false
	}
	return s.cluster.Members[i].Site, true
}

func (c *Cluster) member(name string) (int, bool) {
	return slices.BinarySearchFunc(c.Members, name, func(m Member, name string) int { return cmp.Compare(m.Name, name) })
}

// applyRegisterMember records the site that a controller's endpoint acts for. The name stays with its
// site (S32): a controller that came back with another flag would act in another orchestrator's name.
func applyRegisterMember(s *State, _ Meta, c *fsmpb.RegisterMember) (*fsmpb.Outcome, *Rejection) {
	for _, id := range []struct{ what, id string }{{"controller's name", c.GetName()}, {"member id", c.GetMemberId()}} {
		if rej := checkID(id.what, id.id); rej != nil {
			return nil, rej
		}
	}
	if rej := CheckSite(c.GetSite()); rej != nil {
		return nil, rej
	}
	m := Member{Name: c.GetName(), ID: c.GetMemberId(), Site: SiteFrom(c.GetSite())}
	i, known := s.cluster.member(m.Name)
	switch {
	case known && s.cluster.Members[i].Site != m.Site:
		return nil, Reject(Precondition, "register controller %s: it acts for site %s, and cannot be given site %s", m.Name, s.cluster.Members[i].Site, m.Site)
	case known && s.cluster.Members[i] == m:
		return &fsmpb.Outcome{}, nil
	case known:
		s.cluster.Members = slices.Clone(s.cluster.Members)
		s.cluster.Members[i] = m
	default:
		s.cluster.Members = slices.Insert(slices.Clone(s.cluster.Members), i, m)
	}
	s.writes++
	return &fsmpb.Outcome{}, nil
}

// hashMembers comes after the skipped entries and the sweeps, whose numbers are written where there are
// members.
func hashMembers(e *encoder, c *Cluster) {
	if len(c.Members) == 0 {
		return
	}
	if len(c.Sweeps) == 0 {
		if len(c.Skipped) == 0 {
			e.u64(0)
		}
		e.u64(0)
	}
	e.u64(uint64(len(c.Members)))
	for i := range c.Members {
		e.str(c.Members[i].Name)
		e.str(c.Members[i].ID)
		e.str(string(c.Members[i].Site))
	}
}

func (m *Member) record() *fsmpb.MemberRecord {
	return &fsmpb.MemberRecord{Name: m.Name, MemberId: m.ID, Site: string(m.Site)}
}

func memberFrom(r *fsmpb.MemberRecord) Member {
	return Member{Name: r.GetName(), ID: r.GetMemberId(), Site: Site(r.GetSite())}
}

// checkMembers: the controllers are in order of their names, each once (S32).
func (s *State) checkMembers() error {
	for i := 1; i < len(s.cluster.Members); i++ {
		if s.cluster.Members[i-1].Name >= s.cluster.Members[i].Name {
			return violated("S32", "controller %s is recorded twice, or out of order", s.cluster.Members[i].Name)
		}
	}
	return nil
}
