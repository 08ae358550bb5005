package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// spread is how the voters are spread over zones.
type spread struct {
	voters int
	in     map[string]int // voters in each zone that is known
	silent int            // voters that do not say where they are
	zones  []string       // that there are: of members and of hosts
}

func spreadOf(voters []Member, all []Member, st *fsm.State) spread {
	s := spread{voters: len(voters), in: map[string]int{}}
	for _, m := range voters {
		if m.Zone == "" {
			s.silent++
			continue
		}
		s.in[m.Zone]++
	}
	known := map[string]bool{}
	for _, m := range all {
		known[m.Zone] = true
	}
	for n := range st.Nodes() {
		for _, l := range n.Labels {
			if l.Key == fsm.ZoneKey {
				known[l.Value] = true
			}
		}
	}
	delete(known, "")
	s.zones = slices.Sorted(maps.Keys(known))
	return s
}

// fatal are the zones of which the loss takes the quorum.
func (s *spread) fatal() (zones []string) {
	for zone, n := range s.in {
		if s.voters-n <= s.voters/2 {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// needed is over how many zones the voters must be spread evenly to outlive the loss of one: 0 where no number is enough.
func (s *spread) needed() int {
	for zones := 2; zones <= s.voters; zones++ {
		if most := (s.voters + zones - 1) / zones; s.voters-most > s.voters/2 {
			return zones
		}
	}
	return 0
}

// problem says that the loss of a zone would take the quorum, and the remedy; empty where it would not, or where that is
// not known. avoidable: the zones that there are would allow a better spread.
func (s *spread) problem() (text, remedy string, avoidable bool) {
	fatal, needed := s.fatal(), s.needed()
	if len(fatal) == 0 || needed == 0 || s.silent > 0 {
		return "", "", false
	}
	text = fmt.Sprintf("%d of %d voters are in zone %s: the quorum is lost with it", s.in[fatal[0]], s.voters, strings.Join(fatal, ", and as many in zone "))
	if len(s.zones) < needed {
		return text, fmt.Sprintf("%d zones are known, and %d voters outlive the loss of one when they are spread over %d", len(s.zones), s.voters, needed), false
	}
	return text, fmt.Sprintf("the zones %s allow a better spread: add a controller elsewhere with `holdfast tokens create` and --zone, then remove one here", strings.Join(s.zones, ", ")), true
}

// checkZones finds voters whose zone takes the quorum with it.
func checkZones(p *patient) (out []*adminpb.Diagnosis) {
	var voters []Member
	for _, m := range p.members {
		if m.Voter {
			voters = append(voters, m)
		}
	}
	s := spreadOf(voters, p.members, p.state)
	switch text, remedy, avoidable := s.problem(); {
	case avoidable:
		out = append(out, diagnose(SeverityWarn, "cluster", remedy, "%s", text))
	case text != "":
		out = append(out, fine("cluster", "%s; %s", text, remedy))
	case s.silent == 0 && len(s.in) > 1:
		out = append(out, fine("cluster", "the voters are in %d zones, and outlive the loss of one", len(s.in)))
	case s.silent > 0 && len(s.in) > 0:
		out = append(out, fine("cluster", "%s in no zone that is known: start controllers with --zone", CountOf(s.silent, "voter")))
	}
	return out
}

// addSpread warns of a change after which the loss of a zone would take the quorum. joins and leaves may be nil.
func (p *memberPlanner) addSpread(joins, leaves *Member) {
	var voters []Member
	for i := range p.members {
		m := &p.members[i]
		isJoining := joins != nil && m.MemberID == joins.MemberID
		if (m.Voter || isJoining) && (leaves == nil || m.MemberID != leaves.MemberID) {
			voters = append(voters, *m)
		}
	}
	s := spreadOf(voters, p.members, p.server.Cluster.Fork())
	if text, remedy, avoidable := s.problem(); avoidable {
		p.add(memberStep{action: "spread", state: stepFollows, detail: "after it " + text + "; " + remedy})
	}
}
