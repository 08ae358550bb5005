package certify

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// minFeatureLevel is the first at which the log keeps why an operator makes a volume.
const minFeatureLevel = 3

// minVoters: with fewer there is nobody to hand leadership to.
const minVoters = 2

// Facts are what is asked of a cluster before anything is done to it.
type Facts struct {
	Status     *adminpb.StatusResponse
	Members    []*adminpb.Member
	Nodes      []*adminpb.Node
	Volumes    []*adminpb.Volume
	Operations []*adminpb.Operation
	Audit      *adminpb.AuditResponse
	Reached    []string // the controllers that an address was given of, by name
}

// Hosts are the nodes without those that an operator attested to be gone for good: they are no part of the cluster any more, and the log
// keeps their names.
func Hosts(nodes []*adminpb.Node) []*adminpb.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *adminpb.Node) bool { return n.GetState() == "lost" })
}

// Troubles say why a drill must not be held now: only a healthy cluster is drilled. None: it may.
func (f *Facts) Troubles() (all []string) {
	if f.Status.GetLeader() == "" {
		all = append(all, "no controller leads")
	}
	if level := f.Status.GetFeatureLevel(); level < minFeatureLevel {
		all = append(all, fmt.Sprintf("the cluster runs at feature level %d, and the log keeps why a volume was made from level %d on: `holdfast upgrade finish` raises it", level, minFeatureLevel))
	}
	all = append(all, f.memberTroubles()...)
	for _, n := range f.Nodes {
		if why := nodeTrouble(n); why != "" {
			all = append(all, "host "+n.GetId()+" "+why)
		}
	}
	for _, v := range f.Volumes {
		if v.GetAbnormal() {
			all = append(all, fmt.Sprintf("volume %s is not as it should be: %s", v.GetId(), v.GetCondition()))
		}
	}
	for _, o := range f.Operations {
		if o.GetState() == "failed" {
			all = append(all, fmt.Sprintf("operation %s of volume %s failed", o.GetId(), o.GetVolume()))
		}
	}
	return append(all, AuditTroubles(f.Audit)...)
}

func (f *Facts) memberTroubles() (all []string) {
	voters := 0
	for _, m := range f.Members {
		if m.GetVoter() {
			voters++
		}
		switch {
		case !m.GetReachable():
			all = append(all, fmt.Sprintf("controller %s does not answer: %s", m.GetId(), m.GetDetail()))
		case m.GetTrouble() != "":
			all = append(all, fmt.Sprintf("controller %s is not ready: %s", m.GetId(), m.GetTrouble()))
		case m.GetVoter() && !slices.Contains(f.Reached, m.GetId()):
			all = append(all, fmt.Sprintf("controller %s is not among those whose addresses were given: give those of all", m.GetId()))
		}
	}
	if voters < minVoters {
		all = append(all, fmt.Sprintf("%d controllers vote: leadership is handed over among %d or more", voters, minVoters))
	}
	return all
}

func nodeTrouble(n *adminpb.Node) string {
	switch {
	case n.GetState() != "reachable":
		return "is " + n.GetState()
	case n.GetMaintenance() != 0:
		return "is in maintenance"
	case n.GetOutOfService() != 0:
		return "is out of service"
	case n.GetFence() != "":
		return "is fenced: " + n.GetFence()
	}
	return ""
}

// AuditTroubles are what an audit found.
func AuditTroubles(a *adminpb.AuditResponse) (all []string) {
	for what, found := range map[string][]*adminpb.Finding{"an orphan": a.GetOrphans(), "missing": a.GetMissing(), "wrong": a.GetWrong()} {
		for _, one := range found {
			all = append(all, fmt.Sprintf("the audit: %s %s on host %s is %s", one.GetKind(), one.GetId(), one.GetNode(), what))
		}
	}
	for _, u := range a.GetUnknown() {
		all = append(all, fmt.Sprintf("the audit: host %s could not be asked: %s", u.GetNode(), u.GetDetail()))
	}
	slices.Sort(all)
	return all
}

// Hashes are those of the state at one index, as each controller computed it.
type Hashes struct {
	When  string            `json:"when"`
	Index uint64            `json:"index"`
	Of    map[string]string `json:"of"` // controller: hash, in hexadecimal
}

// HashesOf reads the hashes of a status. The error says why the controllers are not in step: it may pass.
func HashesOf(when string, s *adminpb.StatusResponse) (Hashes, error) {
	h := Hashes{When: when, Of: map[string]string{}}
	var first []byte
	for _, m := range s.GetMembers() {
		switch {
		case !m.GetReachable():
			return h, fmt.Errorf("controller %s does not answer: %s", m.GetId(), m.GetDetail())
		case len(m.GetStateHash()) == 0:
			return h, fmt.Errorf("controller %s has no hash of the state at index %d yet", m.GetId(), s.GetIndex())
		case first == nil:
			first, h.Index = m.GetStateHash(), m.GetHashIndex()
		case m.GetHashIndex() != h.Index:
			return h, fmt.Errorf("controller %s has a hash of index %d, not of %d", m.GetId(), m.GetHashIndex(), h.Index)
		case !bytes.Equal(first, m.GetStateHash()):
			return h, fmt.Errorf("controller %s has another state at index %d than the others", m.GetId(), h.Index)
		}
		h.Of[m.GetId()] = fmt.Sprintf("%x", m.GetStateHash())
	}
	if first == nil {
		return h, fmt.Errorf("no controller says which state it has")
	}
	return h, nil
}
