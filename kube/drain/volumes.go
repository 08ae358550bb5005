package drain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// volume is what happens to a volume; nil: the node has nothing of it. A pod that a drain evicts uses it from when it is on the node,
// before it is published there.
func (f *Facts) volume(v *adminpb.Volume, users map[string]user) *adminpb.DrainFinding {
	own := slices.ContainsFunc(v.GetReplicas(), func(r *adminpb.Replica) bool { return r.GetNode() == f.Node })
	used := slices.ContainsFunc(v.GetPublications(), func(p *adminpb.Publication) bool { return p.GetNode() == f.Node })
	if v.GetPhase() != "ready" || !own && !used {
		return nil
	}
	one := &adminpb.DrainFinding{Kind: "volume", About: v.GetId(), Name: v.GetName(), State: OK}
	if c := v.GetClaim(); c != nil {
		by := users[c.GetNamespace()+"/"+c.GetName()]
		one.Name, one.Pods, used = c.GetNamespace()+"/"+c.GetName(), by.names, used || by.evicted
	}
	f.judge(one, v, used)
	return one
}

func (f *Facts) judge(one *adminpb.DrainFinding, v *adminpb.Volume, used bool) {
	risk := f.riskOf(v.GetId())
	others, closed := f.elsewhere(v)
	waits := "wait until `holdfast volumes replicas " + v.GetId() + "` shows the other replica up to date"
	say := func(state, text, remedy string) { one.State, one.Text, one.Remedy = state, text, remedy }
	switch why := f.alreadyBad(v, used); {
	case risk.GetImpact() == "lost" || risk.GetImpact() == "frozen":
		say(AtRisk, fmt.Sprintf("it would be %s if the host stopped then: %s", risk.GetImpact(), risk.GetReason()), waits)
	case risk == nil && f.cutShort():
		say(AtRisk, "whether it is at risk is not known: more volumes are than can be listed", "mend the volumes that are at risk first")
	case risk == nil && why != "":
		say(AtRisk, why, waits)
	case used && len(others) == 0 && len(closed) > 0:
		say(Waits, "no other host with a copy takes who uses it: "+strings.Join(closed, ", "), "make one of them ready first")
	case used && len(others) == 0:
		say(Waits, "its only copy is here: "+f.stranded(), "stop who uses it, or give it a replica on another host first")
	case used && risk.GetImpact() == "unavailable":
		say(Waits, "nobody can use it meanwhile: "+risk.GetReason(), waits)
	case used:
		say(OK, "who uses it can go on on "+strings.Join(others, ", "), "")
	case len(others)+len(closed) == 0:
		say(OK, "its only copy is here, and nothing uses it on this node", "")
	default:
		say(OK, "it is used elsewhere, or nowhere, and goes on with the copy on "+strings.Join(append(others, closed...), ", "), "")
	}
}

func (f *Facts) stranded() string {
	if f.Kube == nil {
		return "who uses it cannot use it on another host"
	}
	return "who uses it waits until `kubectl uncordon " + f.Node + "`"
}

func (f *Facts) riskOf(id string) *adminpb.VolumeRisk {
	for _, r := range f.Risk.GetVolumes() {
		if r.GetVolume() == id {
			return r
		}
	}
	return nil
}

// cutShort tells whether there are more volumes at risk than the answer lists. Its lists have one bound, which the longest meets.
func (f *Facts) cutShort() bool {
	n := len(f.Risk.GetVolumes())
	return f.Risk.GetMore() > 0 && n >= max(len(f.Risk.GetPublications()), len(f.Risk.GetSnapshots()))
}

// alreadyBad says why a volume that the drain makes no worse is not well: what is at risk is only what gets worse.
func (f *Facts) alreadyBad(v *adminpb.Volume, used bool) string {
	if v.GetReplication() == nil {
		return ""
	}
	own := false
	for _, r := range v.GetReplicas() {
		switch {
		case r.GetNode() == f.Node:
			own = r.GetUpToDate() && !r.GetOutdated()
		case r.GetUpToDate():
			return ""
		}
	}
	if used || own && v.GetAbnormal() {
		return "no copy elsewhere is known to have every write: " + v.GetCondition()
	}
	return ""
}

// elsewhere are the other hosts with a copy that can be reached: those that take who uses it, and those that do not, with why.
func (f *Facts) elsewhere(v *adminpb.Volume) (nodes, closed []string) {
	for _, r := range v.GetReplicas() {
		i := slices.IndexFunc(f.Nodes, func(n *adminpb.Node) bool { return n.GetId() == r.GetNode() && n.GetState() == "reachable" })
		if r.GetNode() == f.Node || i < 0 {
			continue
		}
		if why := f.closed(f.Nodes[i]); why != "" {
			closed = append(closed, r.GetNode()+" ("+why+")")
		} else {
			nodes = append(nodes, r.GetNode())
		}
	}
	return nodes, closed
}

// closed says why nobody begins to use a volume on a host now; empty: it is possible.
func (f *Facts) closed(n *adminpb.Node) string {
	switch {
	case n.GetMaintenance() != 0:
		return "in maintenance"
	case n.GetOutOfService() != 0:
		return "out of service"
	case n.GetFence() != "":
		return "fenced"
	case f.Kube != nil:
		return f.Kube.Closed[n.GetId()]
	}
	return ""
}
